-- Days of filters at the edges of the calendar: what no client can tell is the nearest day that every one can.
begin;
select plan(8);

select is(_in_calendar('2026-02-28'), '2026-02-28'::date, 'an ordinary day stays as it is');
select is(_in_calendar(null), null, 'no day, no day');
select is(_in_calendar('0001-01-02'), '0001-01-02'::date, 'so does the first one');
select is(_in_calendar('0001-01-01'), '0001-01-02'::date, 'what is before it is it: elsewhere its midnight is in the year before');
select is(_in_calendar('-infinity'), '0001-01-02'::date, 'however long before');
select is(_in_calendar('9999-12-31'), '9999-12-30'::date, 'the same at the end');
select is(_in_calendar('infinity'), '9999-12-30'::date, 'of all times');

set session authorization test_reader;
select throws_ok('select lakequeue._in_calendar(''2026-01-01'')', '42501', null, 'it is internal: a reader may not call it');
set session authorization test_owner;

select * from finish();
rollback;
