-- fail_attempt: the worker's word that a submission failed or a run is gone counts for a running attempt; of a closed one
-- only the end of its run is noted, which frees its place.
begin;
\ir scenarios.sql
select plan(142);

-- --- every situation ---------------------------------------------------------------------------------

create temporary table expected (situation text, answer text, states text, permanent_states text, crowded_states text);
insert into expected
select v.situation, v.answer, v.states, coalesce(v.permanent_states, v.states),
       case when v.situation in ('running', 'running, lease over', 'running, last try') then 'enqueued rate_limited' else v.states end
from (values
  ('running', 'accepted', 'enqueued failed', 'failed failed'),
  ('running, lease over', 'accepted', 'enqueued failed', 'failed failed'),
  ('running, asked to stop', 'accepted', 'cancelled cancelled', 'cancelled cancelled'),
  ('running, last try', 'accepted', 'failed failed', 'failed failed'),
  ('result stored', 'superseded', 'completed succeeded', null),
  ('result stored, run presumed dead', 'superseded', 'completed succeeded', null),
  ('confirmed', 'superseded', 'completed succeeded', null),
  ('reported failure', 'superseded', 'enqueued failed', null),
  ('reported failure, another runs', 'superseded', 'processing failed', null),
  ('reported failure, another completed', 'superseded', 'completed failed', null),
  ('reported permanent failure', 'superseded', 'failed failed', null),
  ('reported rate limit', 'superseded', 'enqueued rate_limited', null),
  ('reported that it stopped', 'superseded', 'cancelled cancelled', null),
  ('run died, waiting', 'superseded', 'enqueued failed', null),
  ('run died, another runs', 'superseded', 'processing failed', null),
  ('run died, failed', 'superseded', 'failed failed', null),
  ('expired, enqueued', 'superseded', 'enqueued expired', null),
  ('expired, another runs', 'superseded', 'processing expired', null),
  ('expired, another completed', 'superseded', 'completed expired', null),
  ('expired, failed', 'superseded', 'failed expired', null),
  ('expired, failed, retried', 'superseded', 'enqueued expired', null),
  ('expired after a request, cancelled', 'superseded', 'cancelled expired', null),
  ('superseded', 'superseded', 'completed superseded', null),
  ('superseded, reported', 'superseded', 'completed superseded', null)
) v(situation, answer, states, permanent_states);

-- Fails the attempt in that situation, then once more a minute later, and undoes it all.
create function pg_temp.try(situation text, how text)
returns table (outcome text, again text, run_ended boolean)
language plpgsql
as $$
declare
  v_attempt bigint;
begin
  begin
    v_attempt := attempt_in(situation);
    outcome := fail_attempt(v_attempt, 'run_died', '"gone"', how) || ' ' || states(v_attempt);
    run_ended := (select a.run_ended_at is not null from task_attempts a where a.id = v_attempt);
    perform advance('1 min');
    again := digest();
    again := fail_attempt(v_attempt, 'run_died', '"gone"', how) || case when digest() <> again then ', but something changed' else '' end;
    raise exception using errcode = 'ZZ999';
  exception when sqlstate 'ZZ999' then
    return next;
  end;
end $$;
create temporary table cells as
select e.situation, h.how, e.answer || ' ' || case h.how when 'failure' then e.states when 'rate_limited' then e.crowded_states else e.permanent_states end as expected, t.*
from expected e cross join unnest(array['failure', 'permanent_failure', 'rate_limited']) h(how) cross join lateral pg_temp.try(e.situation, h.how) t;
select is(c.outcome, c.expected, c.situation || ', ' || c.how) from cells c;
select is(array[c.again, c.run_ended::text], array['superseded', 'true'], c.situation || ': its run has ended; again: nothing')
from cells c where c.how = 'failure';

-- --- what it leaves ------------------------------------------------------------------------------------

select start() as a \gset
select task_of(:a) as task \gset
select is(fail_attempt(:a, 'submission_failed', '{"message": "no job 5\u0000"}'), 'accepted', 'a submission failed');
select attempt_is(:a, jsonb_build_object('status', 'failed', 'error_class', 'submission_failed', 'error', U&'no job 5\FFFD', 'reported_at', null,
                                         'ended_at', _now(), 'run_ended_at', _now()), 'the attempt has failed, without its agent''s word');
select task_is(:task, jsonb_build_object('status', 'enqueued', 'failures', 1, 'error', U&'no job 5\FFFD', 'locked_by', null), 'the task waits');
select ok(t.retry_at between _now() + interval '5 s' and _now() + interval '10 s', 'for its backoff') from tasks t where t.id = :task;
select is(report(:a, 'success', '1'), 'accepted', 'if the run lives after all, its success is welcome');
select is(states(:a), 'completed succeeded', 'and completes the task');
select attempt_is(:a, '{"error": null, "error_class": null}', 'without an error');

select start() as bare \gset
select is(fail_attempt(:bare, null, null), 'accepted', 'what went wrong may be unknown');
select task_is(task_of(:bare), '{"status": "enqueued", "error": "failed"}', 'it is then a failure that may be tried again');
select start() as wordy \gset
select is(fail_attempt(:wordy, repeat('x', 5000), to_json(repeat('y', 50000)), 'permanent_failure'), 'accepted', 'long words are cut');
select attempt_is(:wordy, jsonb_build_object('error_class', repeat('x', 200), 'error', repeat('y', 4000)), 'to what can be stored');

-- --- given back: the worker stops, and ended the run itself ---

select new_task(1) as given \gset
select claim_again(:given) as back \gset
select is(fail_attempt(:back, 'worker_stopped', '"bye"', outcome => 'given_back'), 'accepted', 'a worker gives back what it ended itself');
select is(states(:back), 'enqueued cancelled', 'the task is in the queue again, even on its last try');
select task_is(:given, '{"failures": 0, "rate_limited": 0, "retry_at": null, "attempt_count": 1}', 'at once, and nothing counts');
select is(fail_attempt(:back, 'worker_stopped', '"bye"', outcome => 'given_back'), 'superseded', 'once');
select attempt_in('running, asked to stop') as asked \gset
select is(fail_attempt(:asked, 'worker_stopped', outcome => 'given_back'), 'accepted', 'after a request to cancel');
select is(states(:asked), 'cancelled cancelled', 'it is cancelled instead');

-- --- no room for its run; stopped where it ran ---

select start() as crowded \gset
select is(fail_attempt(:crowded, 'no_room', '"2000 runs"', outcome => 'rate_limited'), 'accepted', 'there was no room for its run');
select task_is(task_of(:crowded), '{"status": "enqueued", "failures": 0, "rate_limited": 1, "error": "2000 runs"}', 'which is no failure');
select ok(t.retry_at > _now(), 'and it waits') from tasks t where t.id = task_of(:crowded);
select start() as stopped \gset
select is(fail_attempt(:stopped, 'run_cancelled', '"by ann"', outcome => 'cancelled'), 'accepted', 'somebody stopped its run');
select is(states(:stopped), 'cancelled cancelled', 'which cancels the task');
select task_is(task_of(:stopped), '{"error": "by ann", "failures": 0}', 'and says so');

-- --- a crash loop ends (rule 7) --------------------------------------------------------------------------

select new_task(3) as looping \gset
do $$
begin
  for v_try in 1..2 loop
    perform fail_attempt(claim_again((select max(t.id) from lakequeue.tasks t)), 'boom');
  end loop;
end $$;
select task_is(:looping, '{"status": "enqueued", "failures": 2, "attempt_count": 2}', 'two of three tries');
select is(fail_attempt(claim_again(:looping), 'boom'), 'accepted', 'the third');
select task_is(:looping, '{"status": "failed", "failures": 3, "attempt_count": 3, "retry_at": null}', 'is the last');

-- --- a freed place (rule 3) --------------------------------------------------------------------------------

select attempt_in('superseded') as lost \gset
select task_of(:lost) as task \gset
select configure_agent(agent_of(:task), max_concurrent_tasks => 1) \gset
select enqueue_task(agent_of(:task), '/next.pdf') as next \gset
select is_empty(format('select * from dequeue_tasks(''w'', 10, array[%L])', agent_of(:task)), 'a run that may live holds its place');
select is(fail_attempt(:lost, 'run_stopped'), 'superseded', 'its worker says that it is dead');
select attempt_is(:lost, jsonb_build_object('status', 'superseded', 'run_ended_at', _now(), 'error', null), 'which is all that is noted');
select is(claim(:next) > 0, true, 'the place is free at once');

-- --- refused, and for whom ------------------------------------------------------------------------------------

select refused(format('select fail_attempt(%s, ''x'')', attempt), 'LQ404', 'attempt ' || attempt)
from unnest(array['null', '0', '-1', '9223372036854775807']) attempt;
select start() as mine \gset
select refused(format('select fail_attempt(%s, ''x'', outcome => %L)', :mine, outcome), 'LQ400', coalesce(outcome, 'null') || ' as outcome')
from unnest(array['success', '', null]) outcome;
select refused(format('select fail_attempt(%s, ''x'', ''1e200000'')', :mine), 'LQ422', 'an error that cannot be stored');
set session authorization test_worker;
select is(fail_attempt(:mine, 'boom'), 'accepted', 'a worker calls it');
set session authorization test_owner;
select not_for(login, format('select lakequeue.fail_attempt(%s, ''x'')', :mine))
from unnest(array['test_app', 'test_web', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
