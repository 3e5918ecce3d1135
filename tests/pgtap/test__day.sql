-- The reporting day: of the installation's time zone, not of the session's, and right around a change of the clocks.
begin;
select plan(11);

select is((select time_zone from installation), 'UTC', 'it is UTC to begin with');
select is(_day('2026-03-01 00:00+00'), '2026-03-01'::date, 'a day begins at midnight');
select is(_day('2026-02-28 23:59:59.999999+00'), '2026-02-28'::date, 'and ends before it');
select is(_day(null), null, 'no time, no day');
set local timezone = 'Pacific/Auckland';
select is(_day('2026-02-28 23:59:59.999999+00'), '2026-02-28'::date, 'the session''s time zone does not matter');

update installation set time_zone = 'America/New_York';
select is(_day('2026-03-01 04:59:59+00'), '2026-02-28'::date, 'another zone moves midnight');
select is(_day('2026-03-01 05:00+00'), '2026-03-01'::date, 'to where it is there');
select is(_day('2026-03-09 03:59:59+00'), '2026-03-08'::date, 'on the day that clocks go forward it is an hour earlier');
select is(_day('2026-03-09 04:00+00'), '2026-03-09'::date, 'from then on');
select is(_day('infinity'), 'infinity'::date, 'an infinite time is an infinite day');

set session authorization test_reader;
select throws_ok('select lakequeue._day(now())', '42501', null, 'it is internal: a reader may not call it');
set session authorization test_owner;

select * from finish();
rollback;
