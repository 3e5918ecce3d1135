-- retry_tasks: a failed or cancelled task goes back to its old place with its counts at 0, or is completed from a result
-- that an attempt has stored (rule 9: what was paid for is never run again); the rest is skipped, with the reason.
begin;
\ir scenarios.sql
select plan(53);

-- --- a batch of everything -------------------------------------------------------------------------------------------

select new_task() as waiting \gset
select task_of(attempt_in('confirmed')) as completed \gset
select task_of(attempt_in('reported permanent failure')) as failed \gset
select task_of(attempt_in('reported that it stopped')) as cancelled \gset
select new_task() as never_ran \gset
select cancel_task(:never_ran) \gset
select attempt_in('expired, failed, result kept') as kept \gset
select task_of(:kept) as with_result \gset
select advance('1 hour') \gset
select task_of(start()) as processing \gset
create temporary table before as select t.id, to_jsonb(t) as task from tasks t;

set session authorization test_operator;
create temporary table answers as
select * from retry_tasks(array[:completed, :never_ran, :with_result, 0, :failed, :waiting, null, :cancelled, :processing, :failed], 'once more') with ordinality;
grant select on answers to public;
set session authorization test_owner;
select results_eq(
  'select task_id, outcome from answers order by ordinality',
  format($$ values (%s::bigint, 'skipped'), (%s, 'enqueued'), (%s, 'completed'), (0, 'skipped'), (%s, 'enqueued'), (%s, 'skipped'), (null, 'skipped'),
                   (%s, 'enqueued'), (%s, 'skipped'), (%s, 'enqueued') $$,
         :completed, :never_ran, :with_result, :failed, :waiting, :cancelled, :processing, :failed), 'a row per task, in order');
select is_empty('select from answers where outcome = ''skipped'' and coalesce(detail, '''') = ''''', 'what was skipped says why');
select matches(a.detail, v.expected, 'reason: ' || v.expected)
from (values (:completed, 'completed'), (:waiting, 'enqueued'), (:processing, 'processing'), (0, 'no such task')) v(task, expected)
left join answers a on a.task_id = v.task;
select task_is(x.task, jsonb_build_object('status', 'enqueued', 'failures', 0, 'rate_limited', 0, 'retry_at', null, 'cancel_requested_at', null,
                                          'error', null, 'finished_at', null, 'created_at', b.task -> 'created_at', 'attempt_count', b.task -> 'attempt_count'),
               'a ' || (b.task ->> 'status') || ' task is in the queue again, as it was enqueued')
from unnest(array[:failed, :cancelled, :never_ran]) x(task) join before b on b.id = x.task;
select is_empty(format('select from before b join tasks t using (id) where to_jsonb(t) <> b.task and id not in (%s, %s, %s, %s)', :failed, :cancelled, :never_ran, :with_result),
                'what was skipped is as it was');
select set_eq('select task_id, detail ->> ''from'' as was, detail ->> ''to'' as became from task_events where kind = ''retried'' and reason = ''once more'' and actor = ''test_operator''',
              format($$ values (%s::bigint, 'failed', 'enqueued'), (%s, 'cancelled', 'enqueued'), (%s, 'cancelled', 'enqueued'), (%s, 'failed', 'completed') $$,
                     :failed, :cancelled, :never_ran, :with_result), 'an event for each that was not: who, why, from where to where');
select ledger_is_exact();

-- --- a stored result completes the task --------------------------------------------------------------------------------

select task_is(:with_result, jsonb_build_object('status', 'completed', 'finished_at', _now(), 'error', null, 'attempt_count', 1), 'a stored result completes its task');
select attempt_is(:kept, '{"status": "succeeded", "error": null, "error_class": null}', 'its attempt has succeeded');
select is(report(:kept, 'success'), 'accepted', 'the first confirmation of it is accepted');
select is(report(:kept, 'success'), 'duplicate', 'its repeat is a duplicate');

-- Of several results the newest attempt's counts; the ones before stay.
select start() as first \gset
select task_of(:first) as task \gset
select configure_agent(agent_of(:task), max_attempts => 2) \gset
select run_out(:first) \gset
select claim_again(:task) as second \gset
select run_out(:second) \gset
select is(states(:second), 'failed expired', 'two attempts expired');
select store(:first, '"first"') \gset
select store(:second, '"second"') \gset
savepoint two_results;
select matches(retry_task(:task), '^completed', 'both came late');
select results_eq(format('select a.number, a.status::text, r.result from task_attempts a join results r on r.attempt_id = a.id where a.task_id = %s order by a.number', :task),
                  $$ values (1, 'expired', '"first"'::jsonb), (2, 'succeeded', '"second"') $$, 'one of them is the task''s, both are kept');
rollback to two_results;

-- A task that was cancelled with a result in hand.
select attempt_in('expired after a request, cancelled') as late \gset
select store(:late) \gset
select matches(retry_task(task_of(:late)), '^completed', 'a cancelled task is completed from a result too');
select task_is(task_of(:late), '{"status": "completed"}', 'it is');

-- --- its place, its counts ------------------------------------------------------------------------------------------------

select start(1) as a \gset
select task_of(:a) as old \gset
select report(:a, 'failure', error => '"broken"') \gset
select advance('1 min') \gset
select enqueue_task(agent_of(:old), '/newer.pdf') as newer \gset
select enqueue_task(agent_of(:old), '/urgent.pdf', priority => 9) as urgent \gset
select is(retry_task(:old), 'enqueued', 'a failed task');
select results_eq(format('select task_id, attempt_number from dequeue_tasks(''w'', 10, array[%L])', agent_of(:old)),
                  format('values (%s::bigint, 1), (%s, 2), (%s, 1)', :urgent, :old, :newer), 'is at its old place; attempts are numbered on');

-- max_attempts and max_rate_limited start anew.
create function pg_temp.tries_until_final(task bigint, outcome text)
returns integer language plpgsql
as $$
declare
  v_tries integer := 0;
begin
  while (select t.status from tasks t where t.id = task) = 'enqueued' loop
    v_tries := v_tries + 1;
    perform report(claim_again(task), outcome);
    if v_tries > 10 then
      return null;
    end if;
  end loop;
  return v_tries;
end $$;
select new_task(3) as looping \gset
select configure_agent(agent_of(:looping), max_rate_limited => 2) \gset
select is(pg_temp.tries_until_final(:looping, 'failure'), 3, 'three tries');
select is(retry_task(:looping), 'enqueued', 'retried');
select is(pg_temp.tries_until_final(:looping, 'failure'), 3, 'three more');
select is(retry_task(:looping), 'enqueued', 'retried');
select is(pg_temp.tries_until_final(:looping, 'rate_limited'), 3, 'it may be given back twice for a rate limit');
select is(retry_task(:looping), 'enqueued', 'retried');
select is(pg_temp.tries_until_final(:looping, 'rate_limited'), 3, 'and twice more');
select task_is(:looping, '{"status": "failed", "attempt_count": 12, "failures": 0, "rate_limited": 3}', 'twelve attempts in all');

-- The success of an attempt from before is still welcome after a retry.
select attempt_in('expired, failed, retried') as before \gset
select is(report(:before, 'success', '1'), 'accepted', 'a success of an attempt from before the retry');
select is(states(:before), 'completed succeeded', 'completes the task');

-- --- a dedup_key that a newer task holds ----------------------------------------------------------------------------------

select new_agent(1) as agent \gset
select enqueue_task(:'agent', '/d.pdf', dedup_key => 'd') as older \gset
select report(claim(:older), 'failure') \gset
select enqueue_task(:'agent', '/d.pdf', dedup_key => 'd') as holder \gset
select task_of(attempt_in('reported permanent failure')) as another \gset
select isnt(:holder, :older, 'a failed task does not hold its key');
select results_eq(format('select outcome, detail like ''%%%s%%dedup_key%%'' from retry_tasks(array[%s, %s])', :holder, :older, :another),
                  $$ values ('skipped', true), ('enqueued', null) $$, 'a retry is skipped where a newer task holds the key, and names it; the others go on');
select task_is(:older, '{"status": "failed", "failures": 1}', 'it is as it was');
select is(count(*), 0::bigint, 'no event says otherwise') from task_events where kind = 'retried' and task_id = :older;
select cancel_task(:holder) \gset
select is(retry_task(:older), 'enqueued', 'once the key is free it can be retried');

-- Also where a result waits: the key is the newer task's.
select new_agent(1) as agent \gset
select enqueue_task(:'agent', '/e.pdf', dedup_key => 'e') as older \gset
select claim(:older) as late \gset
select report(:late, 'permanent_failure') \gset
select enqueue_task(:'agent', '/e.pdf', dedup_key => 'e') as holder \gset
select store(:late) \gset
select matches(retry_task(:older), format('^skipped: .*%s', :holder), 'also with a stored result');
select is(states(:late), 'failed failed', 'task and attempt are as they were');

-- --- what it had waited before -------------------------------------------------------------------------------------------------

select new_agent(1) as agent \gset
select enqueue_task(:'agent', '/f.pdf') as passed_over \gset
update tasks set passed_over_at = _now() - interval '1 hour' where id = :passed_over;
select cancel_task(:passed_over) \gset
select is(retry_task(:passed_over), 'enqueued', 'a task that was passed over, cancelled and retried');
select is((select t.passed_over_at from tasks t where t.id = :passed_over), null, 'holds nobody up at once: its wait begins anew (rule 5)');

-- --- who may -------------------------------------------------------------------------------------------------------------------

set session authorization test_web;
select refused(format('select retry_tasks(array[%s], ''x'', %L)', :older, actor), 'LQ403', coalesce(actor, 'nobody') || ' may not through the web process')
from unnest(array[null, 'stranger']) actor;
select is(outcome, 'skipped', 'an operator may') from retry_tasks(array[:older], 'x', 'ops');
set session authorization test_owner;
select is_empty('select * from retry_tasks(''{}'')', 'no tasks, no answers');
select is_empty('select * from retry_tasks(null)', 'null neither');
select not_for(login, 'select lakequeue.retry_tasks(''{}'')')
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
