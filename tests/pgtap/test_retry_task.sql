-- retry_task says in words what retry_tasks did with one task, and refuses one that there is not.
begin;
\ir scenarios.sql
select plan(18);

select task_of(attempt_in('reported permanent failure')) as failed \gset
select task_of(attempt_in('reported that it stopped')) as cancelled \gset
select task_of(attempt_in('expired, failed, result kept')) as kept \gset
select task_of(attempt_in('confirmed')) as completed \gset
set session authorization test_operator;
select is(retry_task(:failed, 'once more'), 'enqueued', 'a failed task');
select is(retry_task(:cancelled), 'enqueued', 'a cancelled one');
select matches(retry_task(:kept), '^completed: .*result', 'one whose result was kept');
select is(retry_task(:failed), 'skipped: it is enqueued', 'again');
select is(retry_task(:completed), 'skipped: it is completed', 'one that is completed');
set session authorization test_owner;
select results_eq(format('select t.status::text from unnest(array[%s, %s, %s, %s]) with ordinality u(id, n) join tasks t using (id) order by n', :failed, :cancelled, :kept, :completed),
                  $$ values ('enqueued'), ('enqueued'), ('completed'), ('completed') $$, 'so they are');
select row_is(to_jsonb(e), '{"actor": "test_operator", "reason": "once more"}', 'who and why is noted')
from (select null) one left join task_events e on e.kind = 'retried' and e.task_id = :failed;

select refused(format('select retry_task(%s)', task), 'LQ404', 'task ' || task) from unnest(array['null', '0', '9223372036854775807']) task;
set session authorization test_web;
select refused(format('select retry_task(%s, ''x'', ''nobody'')', :completed), 'LQ403', 'not in the name of somebody who may not');
select matches(retry_task(:completed, 'x', 'ops'), '^skipped', 'in that of an operator');
set session authorization test_owner;
select not_for(login, format('select lakequeue.retry_task(%s)', :completed))
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
