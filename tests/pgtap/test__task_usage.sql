-- What a task has used is what all its attempts have used, however they ended; what is not known counts as nothing.
begin;
\ir scenarios.sql
select plan(12);

select new_task() as task \gset
select is(_task_usage(:task), '{0,0,0,0,0,0,0,0,0,0,0}', 'a task that never ran has used nothing');
select claim(:task) as first \gset
select is(_task_usage(:task), '{0,0,0,0,1,0,0,0,0,0,0}', 'one that reported nothing yet neither, but it ran');

select report(start(), 'success', '1', input_tokens => 900, output_tokens => 900, cached_tokens => 900, llm_cost => 9) \gset
select is(_task_usage(:task), '{0,0,0,0,1,0,0,0,0,0,0}', 'what other tasks used is not its own');

select answer from extend_leases(array[:first], array[token(:first)], array[100], array[20]) \gset
select run_out(:first) \gset
select claim_again(:task) as second \gset
select is(_task_usage(:task), '{100,20,0,0,1,0,1,1,0,0,0}', 'an expired attempt counts, unknown parts of it as nothing and as not told');
select report(:first, 'success', '1', input_tokens => 150, output_tokens => 30, cached_tokens => 7, llm_cost => 0.000000001,
              usage_complete => true) \gset
select report(:second, 'cancelled', input_tokens => 10, llm_cost => 1.5) \gset
select is((select array_agg(a.status::text order by a.number) from task_attempts a where a.task_id = :task),
          '{succeeded,superseded}', 'two attempts, one of them superseded');
select is(_task_usage(:task), '{160,30,7,1.500000001,1,1,1,1,1,1,0}', 'both count, to the last digit; now all is told');
select task_of(job_run(1, 0)) as free \gset
select is(_task_usage(:free), '{0,0,0,0,1,1,0,0,0,1,1}', 'a cost of 0 is told; it was a job run');
select task_of(job_run(2, 0.5, 'failure')) as twice \gset
select retry_task(:twice, actor => 'ops') \gset
select claim(:twice) \gset
select is(_task_usage(:twice), '{0,0,0,0.5,1,0,0,0,0,1,1}', 'while a second attempt has no cost yet, the task is not priced in full');

select record_runs(array[(select max(id) from task_attempts)], array[3::bigint]) \gset
select is((_task_usage(:twice))[11], 2.0, 'every job run counts, once it is known');
select is((_task_usage(task_of(job_run(3, job => null))))[11], 0.0, 'a local one does not');

select is(_task_usage(null), '{0,0,0,0,0,0,0,0,0,0,0}', 'no task has used nothing');
select not_for('test_worker', 'select lakequeue._task_usage(1)');

select * from finish();
rollback;
