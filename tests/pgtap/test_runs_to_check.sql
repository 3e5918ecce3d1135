-- runs_to_check: which runs somebody should look up at the relay now, and why; each once in ten seconds, whoever asks.
begin;
\ir scenarios.sql
select plan(57);

-- Starts an attempt with a run.
create sequence pg_temp.runs start 100;
create function pg_temp.start_run()
returns bigint language plpgsql
as $$
declare
  v_attempt bigint := start();
begin
  perform record_runs(array[v_attempt], array[nextval('pg_temp.runs')]);
  return v_attempt;
end $$;
create function pg_temp.why(attempt bigint, worker text default 'w1', batch_size integer default 1000)
returns text language sql
as $$ select max(r.why) from lakequeue.runs_to_check(worker, batch_size) r where r.attempt_id = why.attempt $$;

-- --- near the end of the lease -----------------------------------------------------------------------------------

select pg_temp.start_run() as a \gset
select start() as without_run \gset
select advance('200 s' - interval '1 us') \gset
select says_and_changes_nothing('select count(*) from runs_to_check(''w1'')', '0', 'nothing in the first two thirds of a lease');
select advance('1 us') \gset
select row_is((select to_jsonb(r) from runs_to_check('w1') r),
              (select jsonb_build_object('attempt_id', a.id, 'task_id', a.task_id, 'agent', agent_of(a.task_id), 'run_id', a.run_id, 'run_key', a.run_key, 'why', 'lease')
               from task_attempts a where a.id = :a), 'in its last third: look whether it lives, with all that is known of it; no other, none without a run');
select says_and_changes_nothing('select count(*) from runs_to_check(''w1'')', '0', 'once');
select says_and_changes_nothing('select count(*) from runs_to_check(''w2'')', '0', 'whoever asks');
select advance('10 s' - interval '1 us') \gset
select says_and_changes_nothing('select count(*) from runs_to_check(''w1'')', '0', 'within ten seconds');
select advance('1 us') \gset
select is(pg_temp.why(:a), 'lease', 'then again');
select advance('10 min') \gset
select is(pg_temp.why(:a), 'lease', 'also when the lease is over');
select is(states(:a), 'processing running', 'looking changes nothing about it');
select advance('10 s') \gset
select is(answer, 'extended', 'its worker finds it alive') from extend_leases(array[:a], array[token(:a)]);
select is(pg_temp.why(:a), null, 'that is good for two thirds of the new lease');

-- --- asked to stop ------------------------------------------------------------------------------------------------

select pg_temp.start_run() as b \gset
select is(pg_temp.why(:b), null, 'nothing is wrong with it');
select cancel_task(task_of(:b), actor => 'ops') \gset
select is(pg_temp.why(:b), 'cancel', 'a run that is to be cancelled, at once');
select is(pg_temp.why(:b), null, 'once in ten seconds');
select advance('10 s') \gset
select is(pg_temp.why(:b), 'cancel', 'and again until it is over');
select fail_attempt(:b, 'cancelled') \gset
select advance('10 s') \gset
select is(pg_temp.why(:b), null, 'then no more');

-- --- every situation ---------------------------------------------------------------------------------------------

create temporary table expected (situation text, why text);
insert into expected values
  ('running', null), ('running, lease over', 'lease'), ('running, asked to stop', 'cancel'), ('result stored', null),
  ('result stored, run presumed dead', null), ('confirmed', null), ('reported failure', null), ('reported failure, another runs', null),
  ('reported rate limit', null), ('reported that it stopped', null), ('run died, waiting', null), ('run died, another runs', null),
  ('expired, enqueued', null), ('expired, another runs', null), ('expired, another completed', null), ('expired, failed', null),
  ('expired after a request, cancelled', null), ('expired, cancelled in the queue', null), ('superseded', 'lost'), ('superseded, reported', null);
create function pg_temp.try(situation text)
returns text language plpgsql
as $$
declare
  v_attempt bigint;
  v_why text;
begin
  begin
    v_attempt := attempt_in(situation);
    perform record_runs(array[v_attempt], array[77]);
    v_why := pg_temp.why(v_attempt);
    raise exception using errcode = 'ZZ999';
  exception when sqlstate 'ZZ999' then
    return v_why;
  end;
end $$;
select is(pg_temp.try(e.situation), e.why, e.situation) from expected e;

-- a lost run is handed out until it is known, or presumed, to be dead
select attempt_in('superseded') as lost \gset
select is(pg_temp.why(:lost), null, 'without a run id there is nothing to stop');
select record_runs(array[:lost], array[88]) \gset
select is(pg_temp.why(:lost), 'lost', 'as soon as its run is known it is to be stopped');
select advance('10 s') \gset
savepoint known;
select fail_attempt(:lost, 'stopped') \gset
select is(pg_temp.why(:lost), null, 'until it is known to be dead');
rollback to known;
select advance('10 min') \gset
select sweep_leases(1000) \gset
select is(pg_temp.why(:lost), null, 'or presumed');

rollback to known;
select fail_attempt(:lost, 'stopped') \gset
select fail_attempt(:a, 'stopped') \gset

-- --- a batch: one's own first, then by urgency --------------------------------------------------------------------

create temporary table owned (worker text, attempt bigint);
insert into owned select w.worker, pg_temp.start_run() from (values ('w1'), ('w2'), ('w3')) w(worker);
update task_attempts a set worker = r.worker from owned r where a.id = r.attempt;
update tasks t set locked_by = r.worker, lease_expires_at = _now() + case r.worker when 'w1' then interval '1 s' when 'w2' then '3 s' else '2 s' end
from owned r where t.id = task_of(r.attempt);
savepoint three;
select worker_heartbeat('w2', relay => 'local') \gset
select results_eq(
  $$select attempt_id from runs_to_check('w2')$$, $$select attempt from owned where worker = 'w2'$$,
  'a worker of local runs is given its own');
rollback to three;
update task_attempts a set job_id = 7 where a.id in (select o.attempt from owned o where o.worker in ('w2', 'w3'));
select worker_heartbeat('w1', relay => 'databricks'), worker_heartbeat('w2', relay => 'local') \gset
select is_empty($$select from runs_to_check('w2')$$, 'not one that is a job run after all');
select set_eq($$select attempt_id from runs_to_check('w1')$$, $$select attempt from owned where worker <> 'w1'$$,
  'a worker of job runs is given those of jobs, whosever, and no local one');
rollback to three;
select is((select array_agg(u.worker order by c.number) from runs_to_check('w2', 3) with ordinality c(attempt_id, task_id, agent, run_id, run_key, why, number)
           join owned u on u.attempt = c.attempt_id), '{w2,w1,w3}', 'the asker''s own first, then what is due first');
rollback to three;
select is((select array_agg(u.worker order by c.number) from runs_to_check(null, 3) with ordinality c(attempt_id, task_id, agent, run_id, run_key, why, number)
           join owned u on u.attempt = c.attempt_id), '{w1,w3,w2}', 'nobody has no own');
rollback to three;
select is((select array_agg(u.worker) from runs_to_check('w3', 1) c join owned u on u.attempt = c.attempt_id), '{w3}', 'no more than a batch');
select is((select array_agg(u.worker) from runs_to_check('w3', 1) c join owned u on u.attempt = c.attempt_id), '{w1}', 'the next in the next');

-- --- refused, and for whom --------------------------------------------------------------------------------------------

select refused(format('select runs_to_check(''w1'', %s)', size), 'LQ400', 'batch_size ' || size) from unnest(array['null', '0', '-1', '1001']) size;
set session authorization test_worker;
select is(count(*), 1::bigint, 'a worker calls it') from runs_to_check('w1', 1000);
set session authorization test_owner;
select not_for(login, 'select lakequeue.runs_to_check(''w1'')')
from unnest(array['test_app', 'test_web', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
