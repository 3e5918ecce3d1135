-- cancel_task says in words what cancel_tasks did with one task, and refuses one that there is not.
begin;
\ir scenarios.sql
select plan(17);

select new_task() as waiting \gset
select task_of(start()) as processing \gset
select task_of(attempt_in('confirmed')) as completed \gset
set session authorization test_operator;
select is(cancel_task(:waiting, 'a mistake'), 'cancelled', 'a task that waits');
select matches(cancel_task(:processing), '^requested: it is processing', 'one that is processing');
select matches(cancel_task(:processing), '^skipped: it was asked to stop already', 'again');
select matches(cancel_task(:completed), '^skipped: it is completed', 'one that is completed');
set session authorization test_owner;
select results_eq(format('select status::text, cancel_requested_at is not null from tasks where id in (%s, %s, %s) order by id', :waiting, :processing, :completed),
                  $$ values ('cancelled', false), ('processing', true), ('completed', false) $$, 'so they are');
select row_is(to_jsonb(e), '{"actor": "test_operator", "reason": "a mistake"}', 'who and why is noted')
from (select null) one left join task_events e on e.kind = 'cancel_requested' and e.task_id = :waiting;

select refused(format('select cancel_task(%s)', task), 'LQ404', 'task ' || task) from unnest(array['null', '0', '9223372036854775807']) task;
set session authorization test_web;
select refused(format('select cancel_task(%s, ''x'', ''nobody'')', :processing), 'LQ403', 'not in the name of somebody who may not');
select matches(cancel_task(:processing, 'x', 'ops'), '^skipped', 'in that of an operator');
set session authorization test_owner;
select not_for(login, format('select lakequeue.cancel_task(%s)', :processing))
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
