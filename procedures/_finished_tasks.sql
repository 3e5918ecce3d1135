-- The newest finished tasks under a filter, so that whoever reads on from them reads a bounded number of rows however
-- long the history: the ledger tells how far back that is, then there is one index scan per agent and final status.
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
  v_to timestamptz := coalesce((_in_calendar(to_day) + 1)::timestamp at time zone v_zone, 'infinity');
  v_day date;
  v_from timestamptz;
begin
  -- The newest days that hold so many: without that, each of many agents would be read as far.
  select greatest(from_day, min(d.day)) into v_day
  from (
    select l.day, sum(sum(l.tasks)) over (order by l.day desc) - sum(l.tasks) as newer
    from _ledger(_finished_tasks.agent_ids, _finished_tasks.statuses, customers) l
    where l.day is not null and l.day <= coalesce(to_day, l.day)
    group by l.day) d
  where d.newer < most;
  v_from := coalesce(_in_calendar(v_day)::timestamp at time zone v_zone, '-infinity');

  return query
    select f.id, f.agent_id, f.customer, f.status, (f.finished_at at time zone v_zone)::date
    from unnest(_finished_tasks.agent_ids) g(agent_id)
    cross join unnest(array_remove(array_remove(_finished_tasks.statuses, 'enqueued'), 'processing')) s(status)
    cross join lateral (
      select t.id, t.agent_id, t.customer, t.status, t.finished_at
      from tasks t
      where t.agent_id = g.agent_id and t.status = s.status and t.finished_at is not null
        and t.finished_at >= v_from and t.finished_at < v_to
        and (customers is null or t.customer = any(customers))
      order by t.finished_at desc, t.id desc
      limit most
    ) f
    order by f.finished_at desc, f.id desc
    limit most;
end $$;

comment on function lakequeue._finished_tasks(integer[], lakequeue.task_status[], date, date, text[], integer) is
  'The newest finished tasks under a filter, a bounded number.';
