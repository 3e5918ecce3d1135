-- The newest days on which tasks under a filter finished, as many as hold so many tasks: from the ledger, so that whoever
-- looks for them reads these days and no others, however long the history and however rare they are in it.
--
-- agent_ids, statuses: as _agent_ids and _statuses give them. from_day, to_day: inclusive days of finished_at in the
--   reporting time zone, null for open. customers: null for all. most: how many tasks; null: all of them.
-- whole_before: the days from this one on are given, but their tasks are not counted (some may not be asked for); null: all count.
-- Returns a row per agent, status and day.
create or replace function lakequeue._newest_days(
  agent_ids integer[], statuses lakequeue.task_status[], from_day date, to_day date, customers text[], most integer,
  whole_before date default null)
returns table (agent_id integer, status lakequeue.task_status, day date)
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
begin
  return query
    select n.agent_id, n.status, n.day
    from (
      select l.agent_id, l.status, l.day, sum(l.tasks) as tasks,
             coalesce(sum(sum(l.tasks) filter (where l.day < coalesce(whole_before, 'infinity')))
                        over (order by l.day desc groups between unbounded preceding and 1 preceding), 0) as newer
      from _ledger(_newest_days.agent_ids, _newest_days.statuses, customers) l
      where l.day >= coalesce(from_day, '-infinity') and l.day <= coalesce(to_day, 'infinity')
      group by l.agent_id, l.status, l.day) n
    where n.tasks > 0 and (most is null or n.newer < most);
end $$;

comment on function lakequeue._newest_days(integer[], lakequeue.task_status[], date, date, text[], integer, date) is
  'The newest days on which tasks under a filter finished, as many as hold so many.';
