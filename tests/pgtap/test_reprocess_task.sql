-- reprocess_task says in words what reprocess_tasks did with one task, and refuses one that there is not.
begin;
\ir scenarios.sql
select plan(16);

select task_of(attempt_in('confirmed')) as completed \gset
select new_task() as waiting \gset
set session authorization test_operator;
select reprocess_task(:completed, 'a better model') as said \gset
select matches(reprocess_task(:waiting), '^skipped: it is enqueued', 'a task that waits');
set session authorization test_owner;
select t.id as new from tasks t where t.reprocess_of = :completed \gset
select is(:'said', 'enqueued: ' || :new, 'a completed task: it says the id of the new one');
select task_is(:new, '{"status": "enqueued"}', 'which waits');
select task_is(:completed, '{"status": "completed"}', 'beside the old one');
select row_is(to_jsonb(e), '{"actor": "test_operator", "reason": "a better model"}', 'who and why is noted')
from (select null) one left join task_events e on e.kind = 'reprocessed' and e.task_id = :completed;

select refused(format('select reprocess_task(%s)', task), 'LQ404', 'task ' || task) from unnest(array['null', '0', '9223372036854775807']) task;
set session authorization test_web;
select refused(format('select reprocess_task(%s, ''x'', ''nobody'')', :completed), 'LQ403', 'not in the name of somebody who may not');
select matches(reprocess_task(:completed, 'x', 'ops'), '^skipped: task ' || :new, 'in that of an operator; but once is enough while the new task waits');
set session authorization test_owner;
select not_for(login, format('select lakequeue.reprocess_task(%s)', :completed))
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
