-- One transaction at a time is about to notify a channel, and nobody ever waits for another to do so. That notifications
-- arrive takes a commit, so it is tested with listeners (tests/race).
begin;
select plan(8);

-- second keys of the guards that this transaction holds
create function pg_temp.guards() returns integer[] language sql as $$
  select array_agg(('x' || lpad(to_hex(l.objid::bigint), 8, '0'))::bit(32)::integer order by l.objid desc)
  from pg_locks l
  where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.objsubid = 2
    and l.classid = lakequeue._lock_class()::oid
$$;

select is(pg_temp.guards(), null, 'nothing is held to begin with');
select lives_ok($$select _nudge('lakequeue_worker')$$, 'workers are nudged');
select is(pg_temp.guards(), array[-1], 'under the guard of their channel');
select lives_ok($$select _nudge('lakequeue_worker') from generate_series(1, 100)$$, 'again and again does no harm');
select is(pg_temp.guards(), array[-1], 'nor does it take more');
select lives_ok($$select _nudge('lakequeue_changes')$$, 'watchers are nudged');
select is(pg_temp.guards(), array[-1, -2], 'under a guard of their own');

set session authorization test_worker;
select throws_ok($$select lakequeue._nudge('lakequeue_worker')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
