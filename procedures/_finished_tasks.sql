-- The newest finished tasks under a filter, so that whoever reads on from them reads a bounded number of rows however
-- long the history: the ledger tells on which days they are, then there is an index scan per agent and final status (of
-- customers, per day as well), which reads no task as long as the index can tell that it is there.
--
-- agent_ids, statuses: as _agent_ids and _statuses give them. from_day, to_day: inclusive days of finished_at in the
--   reporting time zone, null for open. customers: null for all. most: how many at most. after_at, after_id: only those
--   that stand behind this one.
create or replace function lakequeue._finished_tasks(
  agent_ids integer[], statuses lakequeue.task_status[], from_day date, to_day date, customers text[], most integer,
  after_at timestamptz default null, after_id bigint default null)
returns table (
  task_id bigint, agent_id integer, customer text, status lakequeue.task_status, day date, finished_at timestamptz)
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_indexscan = on
set enable_sort = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  c_tick constant interval := '1 microsecond';
  v_zone text := (select i.time_zone from installation i);
  v_at timestamptz := coalesce(after_at, 'infinity');
  v_id bigint := coalesce(after_id, 9223372036854775807);
  v_day date := (after_at at time zone v_zone)::date;
  v_final task_status[] := array_remove(array_remove(statuses, 'enqueued'), 'processing');
  -- A short page of everybody's tasks is sooner read from each agent and status than found in the ledger.
  v_short boolean := customers is null and most::bigint * cardinality(agent_ids) * cardinality(v_final) <= 5000;
begin
  return query
    with days as materialized (
      select d.*
      from _newest_days(_finished_tasks.agent_ids, v_final, from_day, least(to_day, v_day), customers, most, v_day) d
      where not v_short
    ), spans as materialized (
      -- Everything since the oldest of these days: without them, each of many agents would be read as far. An index scan
      -- begins at the last instant, not at a pair of it and an id, so it must be no later than that of the pair.
      select g.agent_id, s.status,
             coalesce(_in_calendar(greatest(from_day, (select min(d.day) from days d)))::timestamp at time zone v_zone, '-infinity') as first,
             least(coalesce((_in_calendar(to_day) + 1)::timestamp at time zone v_zone - c_tick, 'infinity'), v_at) as last, null as customer
      from unnest(_finished_tasks.agent_ids) g(agent_id)
      cross join unnest(v_final) s(status)
      where customers is null
      union all
      -- Of customers these days only, since they may have few.
      select d.agent_id, d.status, d.day::timestamp at time zone v_zone,
             least((d.day + 1)::timestamp at time zone v_zone - c_tick, v_at), c.customer
      from days d
      cross join (select distinct u.customer from unnest(customers) u(customer) where u.customer is not null) c
    )
    select f.id, f.agent_id, f.customer, f.status, (f.finished_at at time zone v_zone)::date, f.finished_at
    from spans s
    cross join lateral (
      (select t.id, t.agent_id, t.customer, t.status, t.finished_at
       from tasks t
       where t.agent_id = s.agent_id and t.status = s.status and t.finished_at is not null
         and t.finished_at between s.first and s.last and (t.finished_at, t.id) < (v_at, v_id)
         and s.customer is null
       order by t.finished_at desc, t.id desc
       limit most)
      union all
      (select t.id, t.agent_id, t.customer, t.status, t.finished_at
       from tasks t
       where t.agent_id = s.agent_id and t.status = s.status and t.finished_at is not null
         and t.finished_at between s.first and s.last and (t.finished_at, t.id) < (v_at, v_id)
         and t.customer = s.customer
       order by t.finished_at desc, t.id desc
       limit most)
    ) f
    order by f.finished_at desc, f.id desc
    limit most;
end $$;

comment on function lakequeue._finished_tasks(
  integer[], lakequeue.task_status[], date, date, text[], integer, timestamptz, bigint) is
  'The newest finished tasks under a filter, a bounded number.';
