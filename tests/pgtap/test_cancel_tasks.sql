-- cancel_tasks: what waits is cancelled at once; what is processing is asked to stop and ends cancelled in any way but
-- success; the rest is skipped, with the reason. A batch is answered in order.
begin;
\ir scenarios.sql
select plan(47);

-- --- a batch of everything ---------------------------------------------------------------------------------------

select new_task() as waiting \gset
select task_of(attempt_in('reported failure')) as retrying \gset
select task_of(start()) as processing \gset
select task_of(attempt_in('running, asked to stop')) as asked \gset
select task_of(attempt_in('confirmed')) as completed \gset
select task_of(attempt_in('reported permanent failure')) as failed \gset
select task_of(attempt_in('reported that it stopped')) as cancelled \gset
create temporary table before as
select t.id, to_jsonb(t) as task from tasks t where t.id in (:asked, :completed, :failed, :cancelled);

set session authorization test_operator;
create temporary table answers as
select * from cancel_tasks(array[:processing, :cancelled, 0, :waiting, :completed, null, :asked, :retrying, :failed, :waiting], 'a mistake') with ordinality;
grant select on answers to public;
set session authorization test_owner;
select results_eq(
  'select task_id, outcome from answers order by ordinality',
  format($$ values (%s::bigint, 'requested'), (%s, 'skipped'), (0, 'skipped'), (%s, 'cancelled'), (%s, 'skipped'), (null, 'skipped'), (%s, 'skipped'),
                   (%s, 'cancelled'), (%s, 'skipped'), (%s, 'cancelled') $$,
         :processing, :cancelled, :waiting, :completed, :asked, :retrying, :failed, :waiting), 'a row per task, in order');
select is_empty('select from answers where (outcome = ''skipped'') and coalesce(detail, '''') = ''''', 'what was skipped says why');
select matches(a.detail, v.expected, 'reason: ' || v.expected)
from (values (:completed, 'completed'), (:failed, 'failed'), (:cancelled, 'cancelled'), (:asked, 'already'), (0, 'no such task')) v(task, expected)
left join answers a on a.task_id = v.task;

select task_is(task, jsonb_build_object('status', 'cancelled', 'finished_at', _now(), 'retry_at', null, 'cancel_requested_at', null),
               'a task that waits is cancelled at once') from unnest(array[:waiting, :retrying]) task;
select task_is(:processing, jsonb_build_object('status', 'processing', 'locked_by', 'w1', 'cancel_requested_at', _now()), 'one that is processing is asked to stop');
select is_empty('select from before b join tasks t using (id) where to_jsonb(t) <> b.task', 'what was skipped is as it was');
select set_eq(format('select task_id from task_events where kind = ''cancel_requested'' and actor = ''test_operator'' and session_actor = ''test_operator'' and reason = ''a mistake'' and at = %L', _now()),
              array[:processing, :waiting, :retrying]::bigint[], 'an event for each that was not: who and why');
select is(count(*), 3::bigint, 'and no other') from task_events where reason = 'a mistake';
select ledger_is_exact();

-- Again: nothing more.
select says_and_changes_nothing(format('select string_agg(outcome, '' '') from cancel_tasks(array[%s, %s, %s])', :processing, :waiting, :retrying),
                                'skipped skipped skipped', 'again: nothing');

-- --- then any end but success is the end (rule 3) ---------------------------------------------------------------

create function pg_temp.cancelled_then(next text)
returns text language plpgsql
as $$
declare
  v_attempt bigint := attempt_in('running, asked to stop');
  v_requested timestamptz := (select t.cancel_requested_at from tasks t where t.id = task_of(v_attempt));
begin
  case next
    when 'success' then perform report(v_attempt, 'success', '1');
    when 'a result' then perform store(v_attempt);
    when 'expiry' then perform run_out(v_attempt);
    when 'a dead run' then perform fail_attempt(v_attempt, 'run_died');
    when 'no result' then perform report(v_attempt, 'success');
    else perform report(v_attempt, next);
  end case;
  return states(v_attempt) || case when v_requested = (select t.cancel_requested_at from tasks t where t.id = task_of(v_attempt)) then '' else ', request lost' end;
end $$;
select is(pg_temp.cancelled_then(v.next), v.states, 'a request to stop, then ' || v.next)
from (values ('success', 'completed succeeded'), ('a result', 'completed succeeded'), ('failure', 'cancelled failed'), ('permanent_failure', 'cancelled failed'),
             ('rate_limited', 'cancelled rate_limited'), ('cancelled', 'cancelled cancelled'), ('expiry', 'cancelled expired'), ('a dead run', 'cancelled cancelled'),
             ('no result', 'processing running')) v(next, states);

-- It counts in every limit until then.
select new_task() as task \gset
select configure_agent(agent_of(:task), max_concurrent_tasks => 1) \gset
select claim(:task) as a \gset
select enqueue_task(agent_of(:task), '/next.pdf') as next \gset
select cancel_tasks(array[:task]) \gset
select is_empty(format('select * from dequeue_tasks(''w'', 10, array[%L])', agent_of(:task)), 'a run that is to stop holds its place');
select advance('10 min' - interval '1 us') \gset
select sweep_leases(1000) \gset
select is_empty(format('select * from dequeue_tasks(''w'', 10, array[%L])', agent_of(:task)), 'to the end of lease and grace');
select report(:a, 'cancelled') \gset
select is(claim(:next) > 0, true, 'or until it says that it has stopped');

-- A late success does not bring a cancelled task back; its result is kept.
select attempt_in('expired after a request, cancelled') as late \gset
select is(report(:late, 'success', '"kept"'), 'superseded', 'a success after the cancel');
select is(states(:late), 'cancelled expired', 'leaves the task cancelled');
select is(r.result, '"kept"', 'but the result is kept') from (select null) one left join results r on r.attempt_id = :late;

-- --- who may -----------------------------------------------------------------------------------------------------

select new_task() as task \gset
select set_person('viv', 'viewer') \gset
set session authorization test_web;
select refused(format('select cancel_tasks(array[%s], ''x'', %L)', :task, actor), 'LQ403', coalesce(actor, 'nobody') || ' may not through the web process')
from unnest(array[null, 'viv', 'stranger', '', 'OPS', 'test_operator']) actor;
select is(outcome, 'cancelled', 'an operator may') from cancel_tasks(array[:task], 'x', 'ops');
set session authorization test_owner;
select row_is(to_jsonb(e), '{"actor": "ops", "session_actor": "test_web", "reason": "x"}', 'person and login are noted')
from (select null) one left join task_events e on e.kind = 'cancel_requested' and e.task_id = :task;
select new_task() as task \gset
set session authorization test_operator;
select cancel_tasks(array[:task], repeat('x', 5000), 'somebody else') \gset
set session authorization test_owner;
select row_is(to_jsonb(e), jsonb_build_object('actor', 'test_operator', 'session_actor', 'test_operator', 'reason', repeat('x', 4000)),
              'a login acts as itself, whoever it names; a long reason is cut')
from (select null) one left join task_events e on e.kind = 'cancel_requested' and e.task_id = :task;

select is_empty('select * from cancel_tasks(''{}'')', 'no tasks, no answers');
select is_empty('select * from cancel_tasks(null)', 'null neither');
select not_for(login, 'select lakequeue.cancel_tasks(''{}'')')
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
