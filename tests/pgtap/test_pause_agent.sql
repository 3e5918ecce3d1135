-- A paused agent claims nothing, what runs goes on, and everybody can see since when, by whom and why.
begin;
select plan(19);

select set_clock('2026-03-01 09:00+00');
select configure_agent('_pa a'), configure_agent('_pa b', max_concurrent_tasks => 10);
select enqueue_task('_pa a', '/1'), enqueue_task('_pa a', '/2'), enqueue_task('_pa b', '/3'), enqueue_task('_pa b', '/4');
create temporary table claim as select * from dequeue_tasks('_pa worker', 1, array['_pa a']);

set session authorization test_operator;
select lives_ok($$select pause_agent('_pa a', 'the bill is too high')$$, 'an operator may pause an agent');
set session authorization test_owner;
select results_eq(
  $$select paused_at, paused_by, pause_reason from agent_status(array['_pa a'])$$,
  $$values ('2026-03-01 09:00+00'::timestamptz, 'test_operator', 'the bill is too high')$$, 'its status says so');
select is((select count(*) from dequeue_tasks('_pa worker', 10, array['_pa a'])), 0::bigint, 'nothing of it is claimed');
select is((select agent from dequeue_tasks('_pa worker', 1)), '_pa b', 'other agents go on');
select is((select status::text from tasks where id = (select task_id from claim)), 'processing', 'what runs goes on');
select is((select answer from extend_leases(array[(select attempt_id from claim)], array[(select callback_token from claim)])),
  'extended', 'keeps its lease');
select is(record_callback(attempt_id, callback_token, 'success', '{"x": 1}'), 'accepted', 'and can finish') from claim;
select lives_ok($$select enqueue_task('_pa a', '/5')$$, 'enqueueing goes on');
select is((select count(*) from dequeue_tasks('_pa worker', 10, array['_pa a'])), 0::bigint, 'still without a claim');

select advance('1 hour');
select set_person('_pa ann@example.org', 'operator');
set session authorization test_web;
select pause_agent('_pa a', null, '_pa ann@example.org');
set session authorization test_owner;
select results_eq(
  $$select paused_at, paused_by, pause_reason from agent_status(array['_pa a'])$$,
  $$values ('2026-03-01 09:00+00'::timestamptz, '_pa ann@example.org', null::text)$$,
  'pausing again changes who and why, not since when');
select results_eq(
  $$select actor, reason from task_events where kind = 'agent_paused' and agent_id = (_agent('_pa a')).id order by id$$,
  $$values ('test_operator', 'the bill is too high'), ('_pa ann@example.org', null)$$, 'both left an event');
set session authorization test_operator;
select pause_agent('_pa a', repeat('ä', 100000));
set session authorization test_owner;
select is((select pause_reason from agents where name = '_pa a'), repeat('ä', 4000), 'a long reason is cut');
select is(
  (select count(*) from pg_locks l where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.mode = 'ExclusiveLock'
     and l.classid = _lock_class()::oid and l.objid = (select model_endpoint_id from agents where name = '_pa a')::oid),
  1::bigint, 'the throttle lock is held until commit, so that no dequeue under way claims afterwards');

select set_person('_pa vic@example.org', 'viewer');
set session authorization test_operator;
select throws_ok($$select pause_agent('_pa c', 'x')$$, 'LQ404', null, 'an unknown agent is refused');
select throws_ok($$select pause_agent(null, 'x')$$, 'LQ404', null, 'so is null');
set session authorization test_web;
select throws_ok($$select pause_agent('_pa b', 'x', '_pa vic@example.org')$$, 'LQ403', null, 'a viewer may not pause');
select throws_ok($$select pause_agent('_pa b', 'x')$$, 'LQ403', null, 'nor the web process for nobody');
set session authorization test_worker;
select throws_ok($$select pause_agent('_pa b', 'x')$$, '42501', null, 'nor a worker');
set session authorization test_owner;
select is((select paused_at from agents where name = '_pa b'), null, 'so the other agent is not paused');

select * from finish();
rollback;
