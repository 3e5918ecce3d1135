-- The hour of a moment is the one that clocks in the reporting time zone strike.
begin;
\ir scenarios.sql
select plan(3);

select is(_hour('2026-01-01 12:59:59.9+00'), '2026-01-01 12:00+00', 'in UTC');
update installation set time_zone = 'Asia/Kolkata';
select is(_hour('2026-01-01 12:59:59.9+00'), '2026-01-01 12:30+00', 'half an hour off, as its clocks are');
set session authorization test_reader;
select throws_ok('select lakequeue._hour(now())', '42501', null, 'it is internal');

select * from finish();
rollback;
