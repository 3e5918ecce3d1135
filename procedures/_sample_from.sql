-- From which day on a sample of the newest finished tasks of customers is taken. Whoever looks for them passes everybody's
-- tasks on the days on which they have any (_finished_tasks), so it ends with the day on which 50 were passed for each one of the
-- sample (a day is read whole): customers with fewer than one task in 50 have a smaller sample.
--
-- agent_ids, statuses: as _agent_ids and _statuses give them, finished ones. from_day, to_day: inclusive days of finished_at in
--   the reporting time zone, null for open. customers: null for all, which are found without passing anybody. sample:
--   how many tasks are wanted.
-- Returns day: the first one, null for open; more: there are tasks before it.
create or replace function lakequeue._sample_from(
  agent_ids integer[], statuses lakequeue.task_status[], from_day date, to_day date, customers text[], sample integer,
  out day date, out more boolean)
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if customers is null then
    day := from_day;
    more := false;
    return;
  end if;
  select coalesce(min(p.day) filter (where p.passed < 50 * sample), from_day), coalesce(bool_or(p.passed >= 50 * sample), false)
  into day, more
  from (
    select d.day, coalesce(sum(sum(r.tasks)) over (order by d.day desc rows between unbounded preceding and 1 preceding), 0) as passed
    from _newest_days(agent_ids, statuses, from_day, to_day, customers, sample + 1) d
    cross join lateral (
      select coalesce(sum(k.tasks), 0) as tasks
      from task_rollups k
      where k.agent_id = d.agent_id and k.status = d.status and k.day = d.day) r
    group by d.day) p;
end $$;

comment on function lakequeue._sample_from(integer[], lakequeue.task_status[], date, date, text[], integer) is
  'From which day on a sample of the newest finished tasks of customers is taken.';
