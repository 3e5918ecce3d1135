-- The breaker: so many failures in a row pause an agent with the reason; what counts as one, and what ends a row.
begin;
\ir scenarios.sql
select no_plan();

create function pg_temp.breaker(agent text) returns text language sql as $$
  select format('%s %s', s.failures_in_a_row, coalesce(s.paused_by || ': ' || s.pause_reason, 'open')) from lakequeue.agent_status(array[agent]) s
$$;
create function pg_temp.attempt_of(agent text) returns bigint language plpgsql as $$
declare v_attempt bigint;
begin
  perform enqueue_task(agent, '/a.pdf');
  select d.attempt_id into strict v_attempt from dequeue_tasks('w', 1, array[agent]) d;
  return v_attempt;
end $$;
select configure_agent('b', breaker_failures => 3, max_attempts => 1);
select configure_agent('b2');
select is((select breaker_failures from agents where name = 'b2'), 10, 'ten is the default');

select is(report(pg_temp.attempt_of('b'), 'failure', error => '"first"'), 'accepted', '(a failure)');
select is(pg_temp.breaker('b'), '1 open', 'a failure counts');
select is(fail_attempt(pg_temp.attempt_of('b'), 'submit_failed', '"second"'), 'accepted', '(a run that could not be started)');
select is(pg_temp.breaker('b'), '2 open', 'so does that');
select is(report(pg_temp.attempt_of('b'), 'permanent_failure', error => '"encrypted"'), 'accepted', '(a verdict on a document)');
select is(report(pg_temp.attempt_of('b'), 'rate_limited'), 'accepted', '(a rate limit)');
select is(report(pg_temp.attempt_of('b'), 'cancelled'), 'accepted', '(a cancel)');
select is(fail_attempt(pg_temp.attempt_of('b'), 'stopping', outcome => 'given_back'), 'accepted', '(one given back)');
select is(pg_temp.breaker('b'), '2 open', 'verdicts, rate limits, cancels and what was given back do not');
select cancel_tasks(array(select t.id from tasks t join agents g on g.id = t.agent_id where g.name = 'b' and t.status = 'enqueued'), actor => 'ops');
select is(report(pg_temp.attempt_of('b'), 'success', '1'), 'accepted', '(a success)');
select is(pg_temp.breaker('b'), '0 open', 'a success ends the row');

create temporary table three as select pg_temp.attempt_of('b') as one, pg_temp.attempt_of('b') as two, pg_temp.attempt_of('b') as three, pg_temp.attempt_of('b') as four;
select is(report(one, 'failure') || report(two, 'failure', error => '"no such model"'), 'acceptedaccepted', '(two failures)') from three;
select is(pg_temp.breaker('b'), '2 open', 'one less than configured does nothing');
select is(report(three, 'failure', error => '"no such model"'), 'accepted', '(the third)') from three;
select is(pg_temp.breaker('b'), '3 breaker: 3 failures in a row, the last one: no such model', 'the third pauses it and says why');
select is((select count(*) from task_events e join agents g on g.id = e.agent_id where g.name = 'b' and e.kind = 'agent_paused' and e.actor = 'breaker'), 1::bigint,
  'which is an event');
select enqueue_task('b', '/waits.pdf');
select is((select count(*) from dequeue_tasks('w', 1, array['b'])), 0::bigint, 'nothing of it is claimed then');
select is(report(four, 'failure', error => '"again"'), 'accepted', '(one that still ran fails)') from three;
select is(pg_temp.breaker('b'), '4 breaker: 3 failures in a row, the last one: no such model', 'the reason stays');
select resume_agent('b', actor => 'ops');
select is(pg_temp.breaker('b'), '0 open', 'to resume it begins a new row');
select is((select count(*) from dequeue_tasks('w', 1, array['b'])), 1::bigint, 'and it is claimed again');

-- leases that run out, and none
select configure_agent('b3', breaker_failures => 2, max_attempts => 1, lease_duration => '1 minute', reconcile_grace => '0');
create temporary table expiring as select pg_temp.attempt_of('b3') as one, pg_temp.attempt_of('b3') as two;
select advance('2 minutes');
select sweep_leases();
select matches(pg_temp.breaker('b3'), '^2 breaker: 2 failures in a row, the last one: no heartbeat', 'runs that vanish count');
select configure_agent('b4', breaker_failures => 0, max_attempts => 1);
select is((select count(*) from generate_series(1, 12) n, report(pg_temp.attempt_of(case when n > 0 then 'b4' end), 'failure') r), 12::bigint, '(twelve failures)');
select is(pg_temp.breaker('b4'), '12 open', '0 means never');
select pause_agent('b4', 'by hand', 'ops');
select configure_agent('b4', breaker_failures => 1);
select _count_outcome((select id from agents where name = 'b4'), true, 'x');
select is(pg_temp.breaker('b4'), '13 test_owner: by hand', 'an agent that is paused already stays as it is');
select _count_outcome(-1, true, 'x'), _count_outcome(-1, false, null);
set session authorization test_worker;
select throws_ok('select lakequeue._count_outcome(1, true, null)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
