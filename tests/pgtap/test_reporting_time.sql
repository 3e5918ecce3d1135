-- reporting_time: now, the reporting time zone, and the day in it on both sides of midnight.
begin;
\ir scenarios.sql
select plan(6);

select results_eq('select * from reporting_time()',
  $$ values ('2026-01-01 12:00+00'::timestamptz, 'UTC', '2026-01-01'::date) $$, 'in UTC, as installed');
update installation set time_zone = 'Asia/Kolkata';
select set_clock('2026-01-01 18:29:59.999999+00');
select is((select r.today from reporting_time() r), '2026-01-01'::date, 'the last moment of a day in Kolkata');
select set_clock('2026-01-01 18:30+00');
select is((select r.today from reporting_time() r), '2026-01-02'::date, 'the first of the next');
select is((select r.time_zone from reporting_time() r), 'Asia/Kolkata', 'the zone by its name');

set session authorization test_web;
set time zone 'America/New_York';
select is((select r.today from reporting_time() r), '2026-01-02'::date, 'whatever the time zone of the caller');
set session authorization test_worker;
select throws_ok('select * from reporting_time()', '42501', null, 'a worker may not ask');

select * from finish();
rollback;
