-- The days of a course through time under a filter, and whether it is told by the hour: a range of at most 7 days is.
--
-- agent_ids: as _agent_ids gives them. from_day, to_day: inclusive days in the reporting time zone; null: since the first
--   rollup, and up to today.
create or replace function lakequeue._time_range(agent_ids integer[], from_day date, to_day date)
returns table (first_day date, last_day date, hourly boolean)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  last_day := least(_in_calendar(to_day), _day(_now()));
  first_day := greatest(
    coalesce(_in_calendar(from_day), (select min(r.day) from task_rollups r where r.agent_id = any(agent_ids) and r.day is not null), last_day),
    last_day - 365);
  hourly := last_day - first_day < 7;
  return next;
end $$;

comment on function lakequeue._time_range(integer[], date, date) is
  'The days of a course through time, at most 366, and whether it is told by the hour.';
