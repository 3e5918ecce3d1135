-- _attempt_usage says of every first attempt what _task_usage says of its task.
begin;
\ir scenarios.sql
select plan(5);

select start() as a \gset
select is(_attempt_usage(a), '{0,0,0,0,1,0,0,0,0,0,0}', 'one that has told nothing ran') from task_attempts a where a.id = :a;
create temporary table told as
select start() as attempt, t.*
from (values (null::bigint, null::bigint, 0.0), (0, 7, null), (100, null, 1.500000001), (100, 0, null)) t(input, cached, cost);
select is(count(*), 4::bigint, 'whatever is told of it') from told t
where report(t.attempt, 'failure', input_tokens => t.input, output_tokens => nullif(t.input, 0), cached_tokens => t.cached,
             llm_cost => t.cost) = 'accepted';
select is(count(*), 4::bigint, 'is that of its task') from told t join task_attempts a on a.id = t.attempt
where _attempt_usage(a) = _task_usage(a.task_id);
select job_run(1, 0.5) as run \gset
select is(_attempt_usage(a), _task_usage(a.task_id), 'of a job run, too') from task_attempts a where a.id = :run;
select not_for('test_worker', 'select lakequeue._attempt_usage(null)');

select * from finish();
rollback;
