-- set_priority says in words what set_priorities did with one task, and refuses one that there is not.
begin;
\ir scenarios.sql
select plan(13);

select new_task() as waiting \gset
select task_of(attempt_in('confirmed')) as completed \gset
set session authorization test_operator;
select is(set_priority(:waiting, 9, 'urgent'), 'changed: its priority was 5', 'a task that waits');
select is(set_priority(:waiting, 9), 'skipped: its priority is 9 already', 'again');
select is(set_priority(:completed, 9), 'skipped: it is completed', 'one that is completed');
set session authorization test_owner;
select task_is(:waiting, '{"priority": 9}', 'so it is');
select refused(format('select set_priority(%s, 5)', task), 'LQ404', 'task ' || task) from unnest(array['null', '0']) task;
select refused(format('select set_priority(%s, 10)', :waiting), 'LQ400', 'priority 10');
set session authorization test_web;
select refused(format('select set_priority(%s, 1, ''x'', ''nobody'')', :waiting), 'LQ403', 'not in the name of somebody who may not');
set session authorization test_owner;
select not_for(login, format('select lakequeue.set_priority(%s, 1)', :waiting))
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
