-- Rules 8 and 9: in every situation a result is kept with its attempt and completes the task if that is not final;
-- the first one wins, and a run that it overtakes counts in every limit until it is known, or presumed, to have ended.
begin;
\ir scenarios.sql
select plan(129);

-- --- every situation -------------------------------------------------------------------------------

create temporary table expected (situation text, answer text, states text);
insert into expected values
  ('running', 'accepted', 'completed succeeded'),
  ('running, lease over', 'accepted', 'completed succeeded'),
  ('running, asked to stop', 'accepted', 'completed succeeded'),
  ('running, last try', 'accepted', 'completed succeeded'),
  ('result stored', 'duplicate', 'completed succeeded'),
  ('result stored, run presumed dead', 'duplicate', 'completed succeeded'),
  ('confirmed', 'duplicate', 'completed succeeded'),
  ('reported failure', 'accepted', 'completed succeeded'),
  ('reported failure, another runs', 'accepted', 'completed succeeded'),
  ('reported failure, another completed', 'superseded', 'completed failed'),
  ('reported permanent failure', 'superseded', 'failed failed'),
  ('reported rate limit', 'accepted', 'completed succeeded'),
  ('reported that it stopped', 'superseded', 'cancelled cancelled'),
  ('run died, waiting', 'accepted', 'completed succeeded'),
  ('run died, another runs', 'accepted', 'completed succeeded'),
  ('run died, failed', 'superseded', 'failed failed'),
  ('expired, enqueued', 'accepted', 'completed succeeded'),
  ('expired, another runs', 'accepted', 'completed succeeded'),
  ('expired, another waits to retry', 'accepted', 'completed succeeded'),
  ('expired, another completed', 'superseded', 'completed expired'),
  ('expired, failed', 'superseded', 'failed expired'),
  ('expired, failed, result kept', 'duplicate', 'failed expired'),
  ('expired, completed from the kept result', 'duplicate', 'completed succeeded'),
  ('expired, failed, retried', 'accepted', 'completed succeeded'),
  ('expired after a request, cancelled', 'superseded', 'cancelled expired'),
  ('expired, cancelled in the queue', 'superseded', 'cancelled expired'),
  ('superseded', 'superseded', 'completed superseded'),
  ('superseded, reported', 'superseded', 'completed superseded');

-- Stores a result in that situation, then another one, and undoes it all.
create function pg_temp.try(situation text)
returns table (outcome text, again text, kept jsonb, attempts text)
language plpgsql
as $$
declare
  v_attempt bigint;
  v_task bigint;
begin
  begin
    v_attempt := attempt_in(situation);
    v_task := task_of(v_attempt);
    outcome := store(v_attempt, '"first"', 0.25) || ' ' || states(v_attempt);
    again := digest();
    again := store(v_attempt, '"second"', 0.75) || case when digest() <> again then ', but something changed' else '' end;
    kept := (select to_jsonb(r) - 'attempt_id' - 'task_id' - 'stored_at' from results r where r.attempt_id = v_attempt and r.task_id = v_task);
    attempts := (select format('%s succeeded, %s running', count(*) filter (where a.status = 'succeeded'),
                               count(*) filter (where a.status = 'running'))
                 from task_attempts a where a.task_id = v_task);
    raise exception using errcode = 'ZZ999';
  exception when sqlstate 'ZZ999' then
    return next;
  end;
end $$;

create temporary table cells as select e.*, t.* from expected e cross join lateral pg_temp.try(e.situation) t;
select is(c.outcome, c.answer || ' ' || c.states, c.situation) from cells c;
select is(c.again, 'duplicate', c.situation || ': a second result of the same attempt changes nothing') from cells c;
select is(c.kept, case
    when c.answer = 'accepted' or c.answer = 'superseded' then '{"result": "first", "confidence": 0.25}'::jsonb
    when c.situation = 'confirmed' then '{"result": 1, "confidence": null}'
    else '{"result": {"total": 7}, "confidence": 0.5}' end, c.situation || ': the first one is kept') from cells c;
select is(c.attempts, case when c.states like 'completed%' then '1 succeeded, 0 running' else '0 succeeded, 0 running' end,
          c.situation || ': a completed task has one success and nothing that runs') from cells c;

-- --- rule 3: a run that was overtaken counts until it is known, or presumed, to have ended ---------------

-- One place for the agent; another task waits for it.
select new_task() as task \gset
select configure_agent(agent_of(:task), max_concurrent_tasks => 1) \gset
select claim(:task) as first \gset
select run_out(:first) \gset
select claim_again(:task) as second \gset
select enqueue_task(agent_of(:task), '/next.pdf') as next \gset
select record_runs(array[:second], array[22]) \gset
select is(store(:first), 'accepted', 'a late success overtakes the running attempt');
select attempt_is(:second, jsonb_build_object(
  'status', 'superseded', 'ended_at', _now(), 'run_ended_at', null, 'presumed_dead_at', _now() + interval '10 min'),
  'which is closed, but its run may live until its lease and grace are over');
select is_empty(format('select * from dequeue_tasks(''w'', 10, array[%L])', agent_of(:task)), 'its place is not free yet');
select results_eq(format('select attempt_id, why from runs_to_check(''w1'') where task_id = %s', :task),
                  format('values (%s::bigint, ''lost'')', :second), 'a worker is told to stop the run');
select advance('10 min' - interval '1 us') \gset
select sweep_leases() \gset
select is_empty(format('select * from dequeue_tasks(''w'', 10, array[%L])', agent_of(:task)), 'nor a moment before');
savepoint presumed;
select advance('1 us') \gset
select is(runs_ended, 1, 'then it is presumed dead') from sweep_leases();
select is(claim(:next) > 0, true, 'and its place is free');
rollback to presumed;
select is(fail_attempt(:second, 'run_stopped'), 'superseded', 'or the worker stops it');
select is(claim(:next) > 0, true, 'and its place is free at once');
rollback to presumed;
select is(report(:second, 'cancelled'), 'superseded', 'or its agent says that it stopped');
select is(claim(:next) > 0, true, 'and its place is free at once');
rollback to presumed;

-- Between the result and its confirmation the run still counts.
select new_task() as task \gset
select configure_agent(agent_of(:task), max_concurrent_tasks => 1) \gset
select claim(:task) as a \gset
select enqueue_task(agent_of(:task), '/next.pdf') as next \gset
select is(store(:a), 'accepted', 'a result completes the task');
select is_empty(format('select * from dequeue_tasks(''w'', 10, array[%L])', agent_of(:task)), 'its run has not ended yet');
select is(report(:a, 'success'), 'accepted', 'the first confirmation is accepted');
select is(claim(:next) > 0, true, 'then the place is free');

select ledger_is_exact();
select not_for('test_worker', 'select lakequeue._store_result(null, null, null, null, null, null, null)');
select * from finish();
rollback;
