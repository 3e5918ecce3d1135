-- The newest days on which tasks under a filter finished, as many as hold so many tasks: from the ledger, so that whoever
-- looks for them reads these days and no others, however long the history and however rare they are in it. The ledger keeps
-- what was purged, so that is taken off: or days of which nothing is left would count as a page.
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
declare
  v_zone text := (select i.time_zone from installation i);
  v_purged date := (  -- up to this day there may be less than the ledger says
    select max((p.hour at time zone v_zone)::date)
    from unnest(_newest_days.agent_ids) g(agent_id)
    cross join lateral (
      select u.hour from purged_tasks u where u.agent_id = g.agent_id order by u.hour desc limit 1) p);
  v_today date := least(_in_calendar(to_day), _day(_now()));
  v_until date := to_day;
  v_from date;
  v_back integer;
  v_found bigint := 0;
  v_there bigint;
  v_group record;
begin
  -- The ledger is read backwards, further and further.
  foreach v_back in array array[7, 60, null] loop
    v_from := greatest(from_day, v_today - v_back);
    for v_group in
      select l.agent_id, l.status, l.day, sum(l.tasks) as tasks
      from _ledger(_newest_days.agent_ids, _newest_days.statuses, customers, v_from, v_until) l
      where l.day is not null
      group by l.agent_id, l.status, l.day
      having sum(l.tasks) > 0
      order by l.day desc
    loop
      exit when v_group.day < day and v_found >= most;
      v_there := v_group.tasks;
      if v_group.day <= v_purged then
        v_there := v_there - coalesce((
          select sum(p.tasks)
          from purged_tasks p
          where p.agent_id = v_group.agent_id and p.status = v_group.status
            and p.hour >= v_group.day::timestamp at time zone v_zone and p.hour < (v_group.day + 1)::timestamp at time zone v_zone
            and (customers is null or p.customer = any(customers))), 0);
        continue when v_there <= 0;
      end if;
      agent_id := v_group.agent_id;
      status := v_group.status;
      day := v_group.day;
      return next;
      if day < coalesce(whole_before, 'infinity') then
        v_found := v_found + v_there;
      end if;
    end loop;
    exit when v_found >= most or v_from is not distinct from from_day;
    v_until := v_from - 1;
  end loop;
end $$;

comment on function lakequeue._newest_days(integer[], lakequeue.task_status[], date, date, text[], integer, date) is
  'The newest days on which tasks under a filter finished, as many as hold so many.';
