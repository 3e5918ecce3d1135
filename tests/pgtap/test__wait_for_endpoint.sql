-- _wait_for_endpoint: takes an endpoint's throttle lock, exclusive or shared, for the rest of the transaction. (That it
-- gives up after 250 ms needs a second session: tests/race.)
begin;
select plan(6);

create function pg_temp.held(endpoint integer) returns text language sql as $$
  select string_agg(l.mode, ' ' order by l.mode) from pg_locks l
  where l.locktype = 'advisory' and l.classid = _lock_class()::oid and l.objid = endpoint::oid and l.pid = pg_backend_pid()
    and l.granted $$;

select ok(_wait_for_endpoint(1000001, true), 'a free lock is to be had');
select is(pg_temp.held(1000001), 'ExclusiveLock', 'exclusive, and kept');
select ok(_wait_for_endpoint(1000002, false), 'or shared');
select is(pg_temp.held(1000002), 'ShareLock', 'and kept');
select is(current_setting('lock_timeout'), '0', 'the caller''s own lock_timeout is as it was');
set session authorization test_worker;
select throws_ok('select lakequeue._wait_for_endpoint(1, true)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
