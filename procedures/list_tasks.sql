-- Tasks, newest first, a page at a time: live ones by created_at, finished ones by finished_at (listed_at). A page
-- reads its rows from the indexes, however long the history: of customers, those of the days on which they have any. For
-- a document it looks at a bounded number of tasks, says how far it has come, and is asked again for what is behind.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- document: part of the path of the document, capitals or not; null: any.
-- page_size: 1 to 1000. after_at, after_id: listed_at and task_id of the last row of the page before; null: first page.
-- Returns fits: true. Where a document is looked for, a page that is not full may end with a task that does not fit, the
--   last one looked at (of 5,000; of a long queue it may be fewer): there may be more behind it.
--   Without such a row a page that is not full is the last one.
-- Errors: LQ400 page_size out of range or an unknown status; LQ404 an unknown agent.
create or replace function lakequeue.list_tasks(
  from_day date default null, to_day date default null, statuses text[] default null, agents text[] default null,
  customers text[] default null, page_size integer default 50,
  after_at timestamptz default null, after_id bigint default null, document text default null)
returns table (
  task_id bigint, agent text, customer text, document_path text, status text, priority smallint,
  created_at timestamptz, finished_at timestamptz, retry_at timestamptz, attempts integer, confidence real,
  error text, listed_at timestamptz, fits boolean)
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
  v_agent_ids integer[] := _agent_ids(agents);
  v_at timestamptz := coalesce(after_at, 'infinity');
  v_id bigint := coalesce(after_id, 9223372036854775807);
  v_document text := lower(nullif(document, ''));
  v_most integer := case when v_document is null then page_size else 5000 end;
  v_waiting integer := page_size;  -- at most so many of each stretch of the queue
begin
  if page_size is null or page_size not between 1 and 1000 then
    raise exception using errcode = 'LQ400', message = 'page_size must be 1 to 1000', hint = 'The default is 50.';
  end if;
  if v_document is not null then
    v_waiting := greatest(page_size, v_most / (
      select 1 + coalesce(sum(w.highest - w.lowest + 1), 0) from unnest(v_agent_ids) g(agent_id) cross join lateral _lanes(g.agent_id) w));
  end if;
  return query
    with waiting as materialized (
      -- one short index scan per agent, lane and priority
      select q.*
      from unnest(v_agent_ids) g(agent_id)
      cross join lateral _lanes(g.agent_id) w
      cross join lateral generate_series(w.lowest, w.highest) p(priority)
      cross join lateral (
        select t.id, t.created_at as listed_at, row_number() over (order by t.created_at desc, t.id desc) as place
        from tasks t
        where t.agent_id = g.agent_id and t.lane = w.lane and t.priority = p.priority and t.status = 'enqueued'
          and t.retry_at is null
          and (t.created_at, t.id) >= (coalesce(w.created_from, '-infinity'), coalesce(w.id_from, 0))
          and 'enqueued' = any(v_statuses)
          and (t.created_at, t.id) < (v_at, v_id)
          and (customers is null or v_document is not null or t.customer = any(customers))
        order by t.created_at desc, t.id desc
        limit v_waiting
      ) q
    ), last_waiting as materialized (
      select w.listed_at, w.id from waiting w where w.place = v_waiting order by w.listed_at desc, w.id desc limit 1
    ), page as materialized (
      select u.id, u.listed_at
      from (
        select f.task_id as id, f.finished_at as listed_at
        from _finished_tasks(v_agent_ids, v_statuses, from_day, to_day, customers, v_most, after_at, after_id) f
        union all
        select w.id, w.listed_at from waiting w
        union all
        -- the few that wait for a retry or are processing
        select t.id, t.created_at
        from tasks t
        where t.status = 'enqueued' and t.retry_at is not null and t.retry_at >= _retries_from() and t.agent_id = any(v_agent_ids)
          and 'enqueued' = any(v_statuses)
          and (t.created_at, t.id) < (v_at, v_id)
          and (customers is null or t.customer = any(customers))
        union all
        select t.task_id, t.created_at
        from _processing() t
        where t.agent_id = any(v_agent_ids)
          and 'processing' = any(v_statuses)
          and (t.created_at, t.task_id) < (v_at, v_id)
          and (customers is null or t.customer = any(customers))
      ) u
      -- Of a stretch that goes on, what is behind its last one is not known: neither is what comes then of the others.
      where not exists (select from last_waiting l where (u.listed_at, u.id) < (l.listed_at, l.id))
      order by u.listed_at desc, u.id desc
      limit v_most
    ), fitting as materialized (
      -- of all of them at once, in the order of the index
      select t.id
      from tasks t
      where v_document is not null and t.id = any(array(select p.id from page p))
        and strpos(lower(t.document_path), v_document) > 0 and (customers is null or t.customer = any(customers))
    ), judged as materialized (
      select p.id, p.listed_at, v_document is null or p.id in (select f.id from fitting f) as fits
      from page p
    ), looked_to as materialized (
      select j.listed_at, j.id
      from judged j
      where not j.fits
        and ((select count(*) from judged c) = v_most or exists (select from last_waiting))
        and (select count(*) from judged c where c.fits) < page_size
      order by j.listed_at, j.id
      limit 1
    ), shown as (
      select j.id, j.listed_at, j.fits
      from judged j
      where (j.fits or exists (select from looked_to o where o.id = j.id))
        and not exists (select from looked_to o where (j.listed_at, j.id) < (o.listed_at, o.id))
      order by j.listed_at desc, j.id desc
      limit page_size
    )
    select t.id, g.name, t.customer, t.document_path, t.status::text, t.priority, t.created_at, t.finished_at,
           t.retry_at, t.attempt_count,
           case when t.status = 'completed' then (
             select r.confidence
             from task_attempts a join results r on r.attempt_id = a.id
             where a.task_id = t.id and a.status = 'succeeded') end,
           t.error, s.listed_at, s.fits
    from shown s
    -- LIMIT keeps it a probe: planned while there were few tasks, a join reads them all
    cross join lateral (select k.* from tasks k where k.id = s.id limit 1) t
    join agents g on g.id = t.agent_id
    order by s.listed_at desc, t.id desc;
end $$;

comment on function lakequeue.list_tasks(date, date, text[], text[], text[], integer, timestamptz, bigint, text) is
  'Tasks, newest first, a page at a time, under one filter.';
