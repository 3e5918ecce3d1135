-- set_priorities: what is not final gets another priority, and its place with it; the rest is skipped, with the reason.
begin;
\ir scenarios.sql
select plan(31);

select new_task() as waiting \gset
select task_of(attempt_in('reported failure')) as retrying \gset
select start() as attempt \gset
select task_of(:attempt) as processing \gset
select new_task() as same \gset
update tasks set priority = 8 where id = :same;
select task_of(attempt_in('confirmed')) as completed \gset
select task_of(attempt_in('reported permanent failure')) as failed \gset
select task_of(attempt_in('reported that it stopped')) as cancelled \gset
create temporary table before as select t.id, t.priority, to_jsonb(t) - 'priority' as task from tasks t;

set session authorization test_operator;
create temporary table answers as
select * from set_priorities(array[:processing, :cancelled, 0, :waiting, :completed, null, :same, :retrying, :failed, :waiting], 8, 'the customer called') with ordinality;
grant select on answers to public;
set session authorization test_owner;
select results_eq(
  'select task_id, outcome from answers order by ordinality',
  format($$ values (%s::bigint, 'changed'), (%s, 'skipped'), (0, 'skipped'), (%s, 'changed'), (%s, 'skipped'), (null, 'skipped'), (%s, 'skipped'),
                   (%s, 'changed'), (%s, 'skipped'), (%s, 'changed') $$,
         :processing, :cancelled, :waiting, :completed, :same, :retrying, :failed, :waiting), 'a row per task, in order');
select matches(a.detail, v.expected, 'in words: ' || v.expected)
from (values (:waiting, 'was 5'), (:completed, 'completed'), (:failed, 'failed'), (:cancelled, 'cancelled'), (:same, '8 already'), (0, 'no such task')) v(task, expected)
left join lateral (select max(o.detail) as detail from answers o where o.task_id = v.task) a on true;
select is(t.priority, 8::smallint, 'changed') from tasks t where t.id in (:waiting, :retrying, :processing);
select is_empty(format('select from before b join tasks t using (id) where t.id not in (%s, %s, %s) and t.priority <> b.priority', :waiting, :retrying, :processing), 'no other');
select is_empty('select from before b join tasks t using (id) where to_jsonb(t) - ''priority'' - ''lane'' <> b.task - ''lane''', 'and nothing else about any');
select results_eq(
  'select task_id, actor, session_actor, detail from task_events where kind = ''priority_set'' and reason = ''the customer called'' order by task_id',
  format($$select v.id, 'test_operator', 'test_operator', '{"from": 5, "to": 8}'::jsonb from unnest(array[%s, %s, %s]::bigint[]) v(id) order by 1$$, :waiting, :retrying, :processing),
  'an event for each: who, why, from and to');
select says_and_changes_nothing(format('select outcome from set_priorities(array[%s], 8)', :waiting), 'skipped', 'again: nothing');
select is_empty('select from set_priorities(''{}'', 5)', 'none is none');

-- its place in the queue (rule 2), also once it comes back
select new_agent() as agent \gset
select enqueue_task(:'agent', '/1') as first, enqueue_task(:'agent', '/2') as second, enqueue_task(:'agent', '/3', priority => 5) as third \gset
select outcome from set_priorities(array[:second], 9) \gset
select outcome from set_priorities(array[:third], 0) \gset
select results_eq(format('select task_id from dequeue_tasks(''w'', 10, array[%L])', :'agent'), array[:second, :first, :third]::bigint[], 'it is claimed by its new place');

-- calls that wait for room, and those that do not
select configure_agent(agent_of(:processing), reserves_calls => true, max_rpm => 1) \gset
select reserve_tokens(:attempt, token(:attempt), 10, 10, 'f0000000-0000-0000-0000-000000000001') \gset
select reserve_tokens(:attempt, token(:attempt), 10, 10, 'f0000000-0000-0000-0000-000000000002') \gset
select outcome from set_priorities(array[:processing], 3) \gset
select results_eq(format('select granted_at is not null, priority from model_calls where attempt_id = %s order by id', :attempt),
                  'values (true, 8::smallint), (false, 3::smallint)', 'a call that waits goes by the new one');

-- --- refused, and for whom ------------------------------------------------------------------------------------------

select refused(format('select set_priorities(array[%s], %s)', :waiting, priority), 'LQ400', 'priority ' || priority) from unnest(array['null', '-1', '10']) priority;
select refused('select set_priorities(array(select g from generate_series(1, 1001) g), 5)', 'LQ400', 'more than 1,000');
select lives_ok('select set_priorities(array(select -g from generate_series(1, 1000) g), 5)', '1,000 are not too many');
set session authorization test_web;
select refused(format('select set_priorities(array[%s], 1, ''x'', ''nobody'')', :waiting), 'LQ403', 'not in the name of somebody who may not');
select is(outcome, 'changed', 'in that of an operator') from set_priorities(array[:waiting], 1, 'x', 'ops');
set session authorization test_owner;
select is(e.actor || ' by ' || e.session_actor, 'ops by test_web', 'both are noted') from task_events e where e.kind = 'priority_set' and e.reason = 'x';
select not_for(login, format('select lakequeue.set_priorities(array[%s], 1)', :waiting))
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
