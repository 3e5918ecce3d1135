-- A course through time has at most 366 days, ends today, and is told by the hour up to 7 days.
begin;
\ir scenarios.sql
select plan(9);

update installation set time_zone = 'Asia/Tokyo';
select set_clock('2026-01-10 20:00+00') \gset
create function pg_temp.told(from_day date, to_day date) returns text language sql as $$
  select concat_ws(' ', r.first_day, r.last_day, r.hourly) from _time_range(_agent_ids(null), from_day, to_day) r $$;
select is(pg_temp.told('2026-01-05', '2026-01-07'), '2026-01-05 2026-01-07 t', 'some days, by the hour');
select is(pg_temp.told('2026-01-01', '2026-01-07'), '2026-01-01 2026-01-07 t', 'seven days');
select is(pg_temp.told('2026-01-01', '2026-01-08'), '2026-01-01 2026-01-08 f', 'eight, by the day');
select is(pg_temp.told('2026-01-05', null), '2026-01-05 2026-01-11 t', 'up to today, which is another day in Tokyo');
select is(pg_temp.told('2026-01-05', '2030-01-01'), '2026-01-05 2026-01-11 t', 'not beyond');
select is(pg_temp.told('2000-01-01', null), '2025-01-11 2026-01-11 f', 'a year at most');
select is(pg_temp.told(null, null), '2026-01-11 2026-01-11 t', 'where nothing was finished yet: today');
select report(start(), 'success', '1') \gset
select fold_rollups() \gset
select set_clock('2026-02-01 20:00+00') \gset
select is(pg_temp.told(null, null), '2026-01-11 2026-02-02 f', 'else since the first day');
select not_for('test_reader', 'select lakequeue._time_range(null, null, null)');

select * from finish();
rollback;
