-- Backoff: doubled each time up to the cap, half of it fixed and half by chance, whatever the configuration allows.
begin;
select plan(14);

-- the least and the most of many draws, as parts of what is expected
create function pg_temp.span(n integer, base interval, cap interval, expected interval) returns numeric[] language sql as
$$ select array[min(v.part), max(v.part)]
   from (select extract(epoch from lakequeue._retry_delay(n, base, cap)) / extract(epoch from expected) as part
         from generate_series(1, 500)) v $$;
create function pg_temp.half_to_all(n integer, base interval, cap interval, expected interval) returns boolean language sql as
$$ select s[1] between 0.5 and 0.55 and s[2] between 0.95 and 1 from pg_temp.span(n, base, cap, expected) s $$;

select ok(pg_temp.half_to_all(1, '10 seconds', '10 minutes', '10 seconds'), 'the first wait is the base, from half to all of it');
select ok(pg_temp.half_to_all(2, '10 seconds', '10 minutes', '20 seconds'), 'the second twice as long');
select ok(pg_temp.half_to_all(4, '10 seconds', '10 minutes', '80 seconds'), 'the fourth eight times');
select ok(pg_temp.half_to_all(7, '10 seconds', '10 minutes', '10 minutes'), 'none is longer than the cap');
select ok(pg_temp.half_to_all(1, '1 hour', '1 minute', '1 minute'), 'not even the first');
select ok(pg_temp.half_to_all(0, '10 seconds', '10 minutes', '10 seconds'), 'a number below one counts as one');
select ok(pg_temp.half_to_all(-5, '10 seconds', '10 minutes', '10 seconds'), 'also a negative one');
select is(_retry_delay(5, '0', '10 minutes'), interval '0', 'a base of nothing is no wait');
select is(_retry_delay(5, '10 seconds', '0'), interval '0', 'neither is a cap of nothing');

-- the furthest that configure_agent allows: base 1 day, cap 7 days, 1,000 rate limits
select ok(pg_temp.half_to_all(1001, '1 day', '7 days', '7 days'), 'the largest base and number give the cap');
select ok(pg_temp.half_to_all(1001, '24 hours', '7 days', '7 days'), 'also when the day is given in hours');
select ok(pg_temp.half_to_all(31, '3 hours', '7 days', '7 days'), 'and for a base between');
select ok(pg_temp.half_to_all(2147483647, '1 day', '7 days', '7 days'), 'no number is too large');

set session authorization test_worker;
select throws_ok('select lakequeue._retry_delay(1, ''1 s'', ''1 s'')', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
