-- A worker lives while it has not stopped and its heartbeat is at most a minute old; of none nothing is said.
begin;
select plan(9);

create function pg_temp.alive(heartbeat interval, stopped interval default null) returns boolean language sql as $$
  select lakequeue._alive(
    jsonb_populate_record(null::lakequeue.workers, jsonb_build_object(
      'name', 'w', 'heartbeat_at', timestamptz '2026-03-01 09:00+00' + heartbeat, 'stopped_at', timestamptz '2026-03-01 09:00+00' + stopped)),
    '2026-03-01 09:00+00')
$$;
select is(pg_temp.alive('0'), true, 'a heartbeat just now');
select is(pg_temp.alive('-1 min'), true, 'a minute ago');
select is(pg_temp.alive('-1 min -1 us'), false, 'longer ago: it is silent');
select is(pg_temp.alive('5 s'), true, 'later than now, since the clock went back');
select is(pg_temp.alive('0', '0'), false, 'one that was stopped');
select is(pg_temp.alive('-2 min', '-1 min'), false, 'or taken for dead');
select is(_alive(null, '2026-03-01 09:00+00'), null, 'none');
select is(_alive(w, '2026-03-01 09:00+00'), null, 'as an outer join has it')
from (values (1)) one(row) left join workers w on w.name = '_al nobody';

set session authorization test_worker;
select throws_ok('select lakequeue._alive(null, now())', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
