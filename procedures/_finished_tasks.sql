-- The newest finished tasks under a filter, so that whoever reads on from them reads a bounded number of rows however
-- long the history: the ledger tells on which days they are, then there is an index scan per agent and final status (of
-- customers, per day as well).
--
-- agent_ids, statuses: as _agent_ids and _statuses give them. from_day, to_day: inclusive days of finished_at in the
--   reporting time zone, null for open. customers: null for all. most: how many at most.
create or replace function lakequeue._finished_tasks(
  agent_ids integer[], statuses lakequeue.task_status[], from_day date, to_day date, customers text[], most integer)
returns table (task_id bigint, agent_id integer, customer text, status lakequeue.task_status, day date)
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_sort = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_zone text := (select i.time_zone from installation i);
begin
  return query
    with days as materialized (
      select d.*
      from _newest_days(_finished_tasks.agent_ids, _finished_tasks.statuses, from_day, to_day, customers, most) d
    ), spans as materialized (
      -- Everything since the oldest of these days: without them, each of many agents would be read as far.
      select g.agent_id, s.status,
             coalesce(_in_calendar(greatest(from_day, (select min(d.day) from days d)))::timestamp at time zone v_zone, '-infinity') as first,
             coalesce((_in_calendar(to_day) + 1)::timestamp at time zone v_zone, 'infinity') as until
      from unnest(_finished_tasks.agent_ids) g(agent_id)
      cross join unnest(array_remove(array_remove(_finished_tasks.statuses, 'enqueued'), 'processing')) s(status)
      where customers is null
      union all
      -- Of customers these days only, since they may have few.
      select d.agent_id, d.status, d.day::timestamp at time zone v_zone, (d.day + 1)::timestamp at time zone v_zone
      from days d
      where customers is not null
    )
    select f.id, f.agent_id, f.customer, f.status, (f.finished_at at time zone v_zone)::date
    from spans s
    cross join lateral (
      select t.id, t.agent_id, t.customer, t.status, t.finished_at
      from tasks t
      where t.agent_id = s.agent_id and t.status = s.status and t.finished_at is not null
        and t.finished_at >= s.first and t.finished_at < s.until
        and (customers is null or t.customer = any(customers))
      order by t.finished_at desc, t.id desc
      limit most
    ) f
    order by f.finished_at desc, f.id desc
    limit most;
end $$;

comment on function lakequeue._finished_tasks(integer[], lakequeue.task_status[], date, date, text[], integer) is
  'The newest finished tasks under a filter, a bounded number.';
