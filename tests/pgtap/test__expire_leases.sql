-- Rule 3: an attempt without a heartbeat ends when its lease and the agent's grace have run out, not a moment before;
-- until then it holds its place. A row that cannot be ended stops none of the others and is passed over for a minute.
begin;
\ir scenarios.sql
select plan(48);

select new_task() as task \gset
select configure_agent(agent_of(:task), lease_duration => '2 min', reconcile_grace => '3 min', max_concurrent_tasks => 1, max_attempts => 3) \gset
select claim(:task) as a \gset
select enqueue_task(agent_of(:task), '/next.pdf', priority => 9) as next \gset

select advance('5 min' - interval '1 us') \gset
select says_and_changes_nothing('select _expire_leases(50)', '0', 'a moment before lease and grace are over nothing happens');
select is_empty(format('select * from dequeue_tasks(''w2'', 10, array[%L])', agent_of(:task)), 'its place is still taken');
select advance('1 us') \gset
select is(_expire_leases(50), 1, 'then it is over');
select task_is(:task, jsonb_build_object('status', 'enqueued', 'failures', 1, 'attempt_count', 1, 'retry_at', null, 'locked_by', null,
                                         'lease_expires_at', null, 'created_at', '2026-01-01 12:00+00'::timestamptz),
               'the task is in the queue again, at its old place, at once');
select attempt_is(:a, jsonb_build_object('status', 'expired', 'error_class', 'lease_expired', 'ended_at', _now(), 'run_ended_at', _now(),
                                         'reported_at', null), 'the attempt has expired');
select row_is(to_jsonb(e), jsonb_build_object('task_id', :task, 'at', _now(), 'detail', '{"worker": "w1", "status": "enqueued"}'::jsonb),
              'an event says so')
from (select null) one left join task_events e on e.kind = 'lease_expired' and e.attempt_id = :a;
select ok(a.error like '%w1%', 'the error names the worker') from task_attempts a where a.id = :a;
select says_and_changes_nothing('select _expire_leases(50)', '0', 'it happens once');
select is(claim(:next) > 0, true, 'its place is free');

-- grace 0: no run outlives its worker
select new_task() as quick \gset
select configure_agent(agent_of(:quick), lease_duration => '2 min', reconcile_grace => '0') \gset
select claim(:quick) as q \gset
select advance('2 min') \gset
select is(_expire_leases(50), 1, 'without grace it is over with the lease');
select is(states(:q), 'enqueued expired', 'of this attempt');

-- a heartbeat in time
select start() as alive \gset
select advance('599 s') \gset
select is(answer, 'extended', 'a heartbeat during the grace') from extend_leases(array[:alive], array[token(:alive)]);
select advance('599 s') \gset
select is(states(:alive), 'processing running', 'another lease and grace') from _expire_leases(50);
select advance('1 s') \gset
select is(_expire_leases(50) > 0, true, 'then it is over');
select is(states(:alive), 'enqueued expired', 'for good');

-- a request to stop, and the last try
select attempt_in('running, asked to stop') as stopping \gset
select attempt_in('running, last try') as last \gset
select start(2) as looping \gset
select task_of(:looping) as loop \gset
select advance('10 min') \gset
select is(_expire_leases(1000), 3, 'three more');
select is(states(:stopping), 'cancelled expired', 'a task that was asked to stop is cancelled, not enqueued');
select is(states(:last), 'failed expired', 'the last try fails the task');
select is(states(:looping), 'enqueued expired', 'one before the last does not');
select claim_again(:loop) as looping \gset
select advance('10 min') \gset
select is(_expire_leases(1000), 1, 'a worker that crashes each time');
select task_is(:loop, '{"status": "failed", "failures": 2, "attempt_count": 2}', 'ends as failed (rule 7)');

-- --- a row that cannot be ended ------------------------------------------------------------------------------

select start() as good \gset
select start() as broken \gset
select task_of(:broken) as broken_task \gset
select start() as better \gset
savepoint whole;
alter table tasks add constraint broken check (status = 'processing' or id <> :broken_task) not valid;
select advance('10 min') \gset
select is(_expire_leases(50), 2, 'a row that cannot be ended stops none of the others');
select is(array[states(:good), states(:better)], array['enqueued expired', 'enqueued expired'], 'neither before nor after it');
select is(t.status, 'processing', 'it stays as it is') from tasks t where t.id = :broken_task;
select results_eq(
  format('select count(*), bool_and(at = _now() and reason <> '''' and detail ? ''sqlstate'') from task_events where kind = ''sweep_error'' and task_id = %s', :broken_task),
  'values (1::bigint, true)', 'an event says why');
select advance('60 s' - interval '1 us') \gset
select says_and_changes_nothing('select _expire_leases(50)', '0', 'it is passed over for a minute');
select start() as later \gset
select advance('1 us') \gset
select is(_expire_leases(50), 0, 'then it is tried again');
select is(count(*), 2::bigint, 'and noted again') from task_events where kind = 'sweep_error' and task_id = :broken_task;

-- Many of them do not keep the others waiting, however small the batch.
select advance('10 min') \gset
select is(_expire_leases(1), 0, 'a batch of one meets the broken row');
select is(_expire_leases(1), 1, 'the next batch goes past it');
select is(states(:later), 'enqueued expired', 'to the next one');
rollback to whole;

-- --- bounded -----------------------------------------------------------------------------------------------------

select count(*) from (select start() from generate_series(1, 5)) many \gset
select advance('10 min') \gset
select is(array[_expire_leases(2), _expire_leases(2), _expire_leases(2), _expire_leases(2), _expire_leases(2)], array[2, 2, 2, 2, 0],
          'never more than a batch, until none is left');

select ledger_is_exact();
select not_for('test_worker', 'select lakequeue._expire_leases(1)');
-- --- a job run is looked up before that, whoever sweeps -----------------------------------------------------------

create temporary table job (attempt bigint);
create function pg_temp.start_job(run bigint)
returns bigint language plpgsql
as $$
declare
  v_task bigint := new_task();
  v_attempt bigint;
begin
  perform configure_agent(agent_of(v_task), job_id => 7);
  v_attempt := claim(v_task);
  if run is not null then
    perform record_runs(array[v_attempt], array[run]);
  end if;
  return v_attempt;
end $$;
select pg_temp.start_job(501) as job_run, pg_temp.start_job(502) as second, pg_temp.start_job(null) as unsubmitted, start() as here \gset
select count(*) from record_runs(array[:here], array[503]) \gset
select advance('10 min') \gset
savepoint due;
select _expire_leases(50) \gset
select is(states(:job_run), 'enqueued expired', 'no worker of job runs lives: it is over');
rollback to due;
select worker_heartbeat('jobs', relay => 'databricks'), worker_heartbeat('here', relay => 'local') \gset
select _expire_leases(1) \gset
select _expire_leases(50) \gset
select is(states(attempt), expected, what)
from (values (:job_run, 'processing running', 'one lives, that has not looked: nothing is decided'), (:second, 'processing running', 'about no job run'),
             (:unsubmitted, 'enqueued expired', 'nothing to look up'), (:here, 'enqueued expired', 'a local run, which it cannot look up')) v(attempt, expected, what);
select is(count(*), 2::bigint, 'it is handed out') from runs_to_check('jobs') r where r.attempt_id in (:job_run, :second);
select is(answer, 'extended', '(the second lives)') from extend_leases(array[:second], array[token(:second)]);
select advance('60 s' - interval '1 us') \gset
select worker_heartbeat('jobs') \gset
select is(_expire_leases(50), 0, 'a minute for the answer');
select is_empty(format('select from runs_to_check(''jobs'') where attempt_id = %s', :job_run), 'which is asked for once');
select advance('1 us') \gset
select is(_expire_leases(50), 1, 'then it is over');
select is(states(:job_run) || ', ' || states(:second), 'enqueued expired, processing running', 'for the one that nobody could look up');
-- What was looked up before lease and grace were over is looked up again.
select advance('540 s' - interval '1 us') \gset
select worker_heartbeat('jobs') \gset
select is(count(*), 1::bigint, '(looked up a moment before)') from runs_to_check('jobs') r where r.attempt_id = :second;
select advance('65 s') \gset
select worker_heartbeat('jobs') \gset
select is(_expire_leases(50), 0, 'an older answer does not count');
select is(count(*), 1::bigint, 'it is asked for once more') from runs_to_check('jobs') r where r.attempt_id = :second;

select * from finish();
rollback;
