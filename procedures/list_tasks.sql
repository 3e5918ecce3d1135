-- Tasks, newest first, a page at a time: live ones by created_at, finished ones by finished_at (listed_at). A page
-- reads its rows from the indexes, however long the history: of customers, those of the days on which they have any. Only
-- for a document it reads on until it has found enough, so a range of days keeps that short.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- document: part of the path of the document, capitals or not; null: any.
-- page_size: 1 to 1000. after_at, after_id: listed_at and task_id of the last row of the page before; null: first page.
-- Errors: LQ400 page_size out of range or an unknown status; LQ404 an unknown agent.
create or replace function lakequeue.list_tasks(
  from_day date default null, to_day date default null, statuses text[] default null, agents text[] default null,
  customers text[] default null, page_size integer default 50,
  after_at timestamptz default null, after_id bigint default null, document text default null)
returns table (
  task_id bigint, agent text, customer text, document_path text, status text, priority smallint,
  created_at timestamptz, finished_at timestamptz, retry_at timestamptz, attempts integer, confidence real,
  error text, listed_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_sort = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_statuses task_status[] := _statuses(statuses);
  v_final task_status[] := array_remove(array_remove(v_statuses, 'enqueued'), 'processing');
  v_agent_ids integer[] := _agent_ids(agents);
  v_zone text := (select i.time_zone from installation i);
  v_from timestamptz := coalesce(_in_calendar(from_day)::timestamp at time zone v_zone, '-infinity');
  v_to timestamptz := coalesce((_in_calendar(to_day) + 1)::timestamp at time zone v_zone, 'infinity');
  v_at timestamptz := coalesce(after_at, 'infinity');
  v_id bigint := coalesce(after_id, 9223372036854775807);
  v_day date := (after_at at time zone v_zone)::date;
  v_document text := lower(nullif(document, ''));
begin
  if page_size is null or page_size not between 1 and 1000 then
    raise exception using errcode = 'LQ400', message = 'page_size must be 1 to 1000', hint = 'The default is 50.';
  end if;
  return query
    with spans as materialized (
      select g.agent_id, s.status, v_from as first, v_to as until
      from unnest(v_agent_ids) g(agent_id)
      cross join unnest(v_final) s(status)
      where customers is null
      union all
      -- of customers only days on which they have any, since these may be few
      select d.agent_id, d.status, d.day::timestamp at time zone v_zone, (d.day + 1)::timestamp at time zone v_zone
      from _newest_days(v_agent_ids, v_final, from_day, least(to_day, v_day), customers,
                        case when v_document is null then page_size end, v_day) d
      where customers is not null
    ), page as (
      -- one short index scan per agent and final status
      select f.*
      from spans s
      cross join lateral (
        select t.id, t.finished_at as listed_at
        from tasks t
        where t.agent_id = s.agent_id and t.status = s.status and t.finished_at is not null
          and t.finished_at >= s.first and t.finished_at < s.until
          and (t.finished_at, t.id) < (v_at, v_id)
          and (customers is null or t.customer = any(customers))
          and (v_document is null or strpos(lower(t.document_path), v_document) > 0)
        order by t.finished_at desc, t.id desc
        limit page_size
      ) f
      union all
      -- one per agent, lane and priority
      select q.*
      from unnest(v_agent_ids) g(agent_id)
      cross join lateral _lanes(g.agent_id) w
      cross join lateral generate_series(w.lowest, w.highest) p(priority)
      cross join lateral (
        select t.id, t.created_at as listed_at
        from tasks t
        where t.agent_id = g.agent_id and t.lane = w.lane and t.priority = p.priority and t.status = 'enqueued'
          and t.retry_at is null
          and (t.created_at, t.id) >= (coalesce(w.created_from, '-infinity'), coalesce(w.id_from, 0))
          and 'enqueued' = any(v_statuses)
          and (t.created_at, t.id) < (v_at, v_id)
          and (customers is null or t.customer = any(customers))
          and (v_document is null or strpos(lower(t.document_path), v_document) > 0)
        order by t.created_at desc, t.id desc
        limit page_size
      ) q
      union all
      -- the few that wait for a retry or are processing
      select t.id, t.created_at
      from tasks t
      where t.status = 'enqueued' and t.retry_at is not null and t.agent_id = any(v_agent_ids)
        and 'enqueued' = any(v_statuses)
        and (t.created_at, t.id) < (v_at, v_id)
        and (customers is null or t.customer = any(customers))
        and (v_document is null or strpos(lower(t.document_path), v_document) > 0)
      union all
      select t.task_id, t.created_at
      from _processing() t
      where t.agent_id = any(v_agent_ids)
        and 'processing' = any(v_statuses)
        and (t.created_at, t.task_id) < (v_at, v_id)
        and (customers is null or t.customer = any(customers))
        and (v_document is null or strpos(lower(t.document_path), v_document) > 0)
      order by 2 desc, 1 desc
      limit page_size
    )
    select t.id, g.name, t.customer, t.document_path, t.status::text, t.priority, t.created_at, t.finished_at,
           t.retry_at, t.attempt_count,
           case when t.status = 'completed' then (
             select r.confidence
             from task_attempts a join results r on r.attempt_id = a.id
             where a.task_id = t.id and a.status = 'succeeded') end,
           t.error, p.listed_at
    from page p
    join tasks t on t.id = p.id
    join agents g on g.id = t.agent_id
    order by p.listed_at desc, t.id desc;
end $$;

comment on function lakequeue.list_tasks(date, date, text[], text[], text[], integer, timestamptz, bigint, text) is
  'Tasks, newest first, a page at a time, under one filter.';
