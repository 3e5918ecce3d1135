-- Who has not asked for a call for 10 seconds does not ask any more.
begin;
select plan(5);

create function pg_temp.asks(seen interval) returns boolean language sql as $$
  select lakequeue._still_asks(
    jsonb_populate_record(null::lakequeue.model_calls, jsonb_build_object('seen_at', timestamptz '2026-03-01 09:00+00' + seen)),
    '2026-03-01 09:00+00')
$$;
select is(pg_temp.asks('0'), true, 'just now');
select is(pg_temp.asks('-9.999999 s'), true, 'less than 10 seconds ago');
select is(pg_temp.asks('-10 s'), false, '10 seconds ago');
select is(pg_temp.asks('5 s'), true, 'later than now, since the clock went back');

set session authorization test_agent;
select throws_ok('select lakequeue._still_asks(null, now())', '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
