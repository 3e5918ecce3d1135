-- Rule 10: what a task has used is the sum over all its attempts, and it is said whether something may be missing.
begin;
\ir scenarios.sql
select plan(13);

create function pg_temp.costs(task bigint) returns text language sql as $$
  select format('%s attempts, %s in, %s out, %s cached, USD %s, %s', c.attempts, coalesce(c.input_tokens::text, '?'), coalesce(c.output_tokens::text, '?'),
                coalesce(c.cached_tokens::text, '?'), coalesce(c.llm_cost::text, '?'), case when c.usage_complete then 'complete' else 'incomplete' end)
  from lakequeue.task_costs c where c.task_id = task
$$;
create temporary table late as select attempt_in('superseded') as attempt;  -- expired first, superseded second attempt
create temporary table task as select task_of(attempt) as id from late;
select is(pg_temp.costs(new_task()), null, 'a task without attempts has no row');
select is(pg_temp.costs(id), '2 attempts, ? in, ? out, ? cached, USD ?, incomplete', 'what is not known is null, not nothing') from task;
select record_usage(a.id, 100, 10, 5, 0.5) from task_attempts a, task where a.task_id = task.id and a.number = 1;
select is(pg_temp.costs(id), '2 attempts, 100 in, 10 out, 5 cached, USD 0.5, incomplete', 'while one attempt''s use is unknown the sum is incomplete') from task;
select record_usage(attempt, 30, 3, 1, 0.25) from late;
select is(pg_temp.costs(id), '2 attempts, 130 in, 13 out, 6 cached, USD 0.75, complete', 'superseded attempts count, too') from task;
select record_usage(attempt, 30, 3, 1, 0.25) from late;
select is(pg_temp.costs(id), '2 attempts, 130 in, 13 out, 6 cached, USD 0.75, complete', 'a repeat adds nothing') from task;
create temporary table running as select start() as attempt;
select extend_leases(array[attempt], array[token(attempt)], array[7], array[8]) from running;
select is(pg_temp.costs(task_of(attempt)), '1 attempts, 7 in, 8 out, ? cached, USD ?, incomplete', 'an attempt that runs is not complete') from running;

grant select on task to public;
set session authorization test_reader;
select is((select attempts from lakequeue.task_costs c, task where c.task_id = task.id), 2::bigint, 'a reader may look');
set session authorization test_operator;
select is((select attempts from lakequeue.task_costs c, task where c.task_id = task.id), 2::bigint, 'an operator may');
set session authorization test_web;
select is((select attempts from lakequeue.task_costs c, task where c.task_id = task.id), 2::bigint, 'the web process may');
select throws_ok('delete from lakequeue.task_costs', null, null, 'but nobody writes through it');
set session authorization test_owner;
select not_for('test_worker', 'select * from lakequeue.task_costs');
select not_for('test_agent', 'select * from lakequeue.task_costs');
select not_for('test_app', 'select * from lakequeue.task_costs');

select * from finish();
rollback;
