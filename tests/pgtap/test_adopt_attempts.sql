-- adopt_attempts: what a dead worker claimed and has no run yet goes to another worker, with the same run key and
-- token, so that nothing is paid twice; what a living worker has stays with it.
begin;
\ir scenarios.sql
select plan(54);

select worker_heartbeat('dead') \gset
select worker_heartbeat('alive') \gset

select new_task() as task \gset
select configure_agent(agent_of(:task), job_id => 5, max_tpm => 7000, parameters => '{"model": "m"}') \gset
select set_model_price('m', 1, 2, 0.5) \gset
create temporary table claimed as select d.* from dequeue_tasks('dead', 1, array[agent_of(:task)]) d;
select attempt_id as a from claimed \gset

create function pg_temp.adopted(worker text default 'heir', batch_size integer default 10)
returns bigint[] language sql
as $$ select coalesce(array_agg(x.attempt_id), '{}') from lakequeue.adopt_attempts(worker, batch_size) x $$;
-- Whether this attempt, and nothing else, would be adopted now.
create function pg_temp.would_adopt(attempt bigint, worker text default 'heir')
returns boolean language plpgsql
as $$
declare
  v_adopted bigint[];
begin
  begin
    v_adopted := pg_temp.adopted(worker, 1000);
    raise exception using errcode = 'ZZ999';
  exception when sqlstate 'ZZ999' then
    return v_adopted = array[attempt];
  end;
end $$;

-- --- who is dead -----------------------------------------------------------------------------------------------

select advance('1 min') \gset
select worker_heartbeat('alive') \gset
select says_and_changes_nothing('select count(*) from adopt_attempts(''heir'')', '0', 'a minute of silence is allowed');
select advance('1 us') \gset
select ok(pg_temp.would_adopt(:a), 'more is not');
savepoint silent;
select worker_heartbeat('dead') \gset
select is(pg_temp.adopted(), '{}', 'if it speaks again it keeps what it has');
select worker_heartbeat('dead', stopping => true) \gset
select ok(pg_temp.would_adopt(:a), 'if it stops it loses it at once');
rollback to silent;
select sweep_leases() \gset
select ok(pg_temp.would_adopt(:a), 'also once the sweep has taken it for dead');
rollback to silent;
select is(pg_temp.adopted('dead'), '{}', 'nobody adopts from himself');

-- --- what is handed on -----------------------------------------------------------------------------------------

select start() as living \gset
update task_attempts set worker = 'alive' where id = :living;
update tasks set locked_by = 'alive' where id = task_of(:living);
create temporary table adopted as select x.* from adopt_attempts('heir') x;
select is(count(*), 1::bigint, 'the attempt is adopted, no other') from adopted;
select is(to_jsonb(x) - 'outcome' - 'lease_expires_at', to_jsonb(c) - 'outcome' - 'lease_expires_at', 'with all that was handed to the dead one: run key, token, parameters')
from claimed c left join adopted x on true;
select is(array[x.outcome, x.callback_token], array['adopted', token(:a)], 'it says that it is adopted') from adopted x;
select is(x.lease_expires_at, _now() + interval '5 min', 'with a fresh lease') from adopted x;
select task_is(:task, jsonb_build_object('status', 'processing', 'locked_by', 'heir', 'lease_expires_at', _now() + interval '5 min', 'attempt_count', 1, 'failures', 0),
               'the task is the heir''s; nothing is counted');
select attempt_is(:a, '{"status": "running", "worker": "heir", "number": 1, "run_id": null}', 'so is the attempt');
select row_is(to_jsonb(e), jsonb_build_object('task_id', :task, 'at', _now(), 'detail', '{"worker": "heir"}'::jsonb), 'an event says so')
from (select null) one left join task_events e on e.kind = 'adopted' and e.attempt_id = :a;
select worker_heartbeat('heir') \gset
select says_and_changes_nothing('select count(*) from adopt_attempts(''second heir'')', '0', 'while the heir lives nobody else gets it');
select says_and_changes_nothing('select count(*) from adopt_attempts(''heir'')', '0', 'nor he himself again');
select is(report(:a, 'success', '1'), 'accepted', 'a run that the dead worker had submitted after all may report');

-- --- what is not ---------------------------------------------------------------------------------------------------

create function pg_temp.with_dead_worker(attempt bigint)
returns bigint language sql
as $$
  update lakequeue.task_attempts a set worker = 'dead' where a.id = attempt;
  update lakequeue.tasks t set locked_by = 'dead' where t.id = scenario.task_of(attempt) and t.status = 'processing';
  select attempt;
$$;
select worker_heartbeat('dead', stopping => true) \gset
savepoint nothing_open;
select ok(pg_temp.would_adopt(pg_temp.with_dead_worker(start())), 'an attempt without a run');
rollback to nothing_open;
create function pg_temp.adopts_in(situation text, with_run boolean default false)
returns bigint[] language plpgsql
as $$
declare
  v_adopted bigint[];
  v_attempt bigint;
begin
  begin
    v_attempt := pg_temp.with_dead_worker(attempt_in(situation));
    if with_run then
      perform record_runs(array[v_attempt], array[9]);
    end if;
    v_adopted := array(select case when u.id = v_attempt then 1 else 0 end from unnest(pg_temp.adopted()) u(id));
    raise exception using errcode = 'ZZ999';
  exception when sqlstate 'ZZ999' then
    return v_adopted;
  end;
end $$;
select is(pg_temp.adopts_in('running'), '{1}', 'a running attempt is adopted');
select is(pg_temp.adopts_in('running', true), '{}', 'one with a run is not');
select is(pg_temp.adopts_in(s), '{}', s || ': not')
from unnest(array['running, asked to stop', 'result stored', 'confirmed', 'reported failure', 'run died, waiting', 'expired, enqueued',
                  'expired, failed', 'superseded']) s;

-- a person at psql sends no heartbeats
select start() as by_hand \gset
select advance('1 min') \gset
select count(worker_heartbeat(w)) from unnest(array['alive', 'heir']) w \gset
select is(pg_temp.adopted(), '{}', 'who claims by hand has a minute');
select advance('1 us') \gset
select ok(pg_temp.would_adopt(:by_hand), 'then it may be adopted');
select is(pg_temp.adopted(), array[:by_hand]::bigint[], 'and is');

-- a worker adopts what it serves, and nothing else
select pg_temp.with_dead_worker(start()) as served \gset
select configure_agent('another agent') \gset
select results_eq($$select count(*) from adopt_attempts('heir', 10, '{another agent}')$$, $$values (0::bigint)$$, 'not of an agent that it does not serve');
select results_eq(format($$select attempt_id from adopt_attempts('heir', 10, array['another agent', %L])$$, agent_of(task_of(:served))),
                  array[:served]::bigint[], 'of one that it serves');
select refused($$select adopt_attempts('heir', 10, '{nobody}')$$, 'LQ404', 'an agent that there is not');

-- a worker of job runs adopts job runs, with the job they were claimed for; one of local runs the others
select worker_heartbeat('jobs', relay => 'databricks'), worker_heartbeat('here', relay => 'local') \gset
select pg_temp.with_dead_worker(start()) as local_run \gset
select new_task() as task \gset
select configure_agent(agent_of(:task), job_id => 77) \gset
select pg_temp.with_dead_worker(claim(:task)) as job_run \gset
select configure_agent(agent_of(:task), job_id => 78) \gset
savepoint dead;
select set_eq($$select attempt_id, job_id from adopt_attempts('jobs', 100)$$, format('values (%s::bigint, 77::bigint)', :job_run), 'a job run, by the same job');
select set_eq($$select attempt_id, job_id from adopt_attempts('here', 100)$$, format('values (%s::bigint, null::bigint)', :local_run), 'a local run');
rollback to dead;
select is_empty(format('select from adopt_attempts(''here'', 100, array[%L])', agent_of(:task)), 'not the other way round');
select is(cardinality(pg_temp.adopted()), 2, 'whoever does not say where it runs agents adopts both');

-- --- a batch --------------------------------------------------------------------------------------------------------

create temporary table many as select pg_temp.with_dead_worker(start()) as attempt from generate_series(1, 3);
select is(array[cardinality(pg_temp.adopted('h', 2)), cardinality(pg_temp.adopted('h', 2)), cardinality(pg_temp.adopted('h', 2))], '{2,1,0}',
          'no more than a batch, until none is left');
select set_eq('select a.worker from task_attempts a join many m on m.attempt = a.id', array['h'], 'all of them were adopted');

-- --- refused, and for whom -------------------------------------------------------------------------------------------

select refused('select adopt_attempts(' || arguments || ')', 'LQ400', arguments)
from (values ('null'), (''''''), ('repeat(''x'', 201)'), ('''w'', null'), ('''w'', 0'), ('''w'', -1'), ('''w'', 1001')) v(arguments);
set session authorization test_worker;
select is(count(*), 0::bigint, 'a worker calls it') from adopt_attempts(repeat('x', 200), 1000);
set session authorization test_owner;
select not_for(login, 'select lakequeue.adopt_attempts(''w'')')
from unnest(array['test_app', 'test_web', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
