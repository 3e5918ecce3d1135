-- A job run is an attempt with a job and a run. What is counted of them is in the files of _task_usage and _compute_groups.
begin;
select plan(6);

create function pg_temp.is_job_run(job bigint, run bigint) returns boolean language sql as $$
  select lakequeue._is_job_run(jsonb_populate_record(null::lakequeue.task_attempts, jsonb_build_object('job_id', job, 'run_id', run)))
$$;
select is(pg_temp.is_job_run(7, 77), true, 'a job and a run');
select is(pg_temp.is_job_run(7, null), false, 'claimed for a job, and not known to run');
select is(pg_temp.is_job_run(null, 77), false, 'a local run');
select is(pg_temp.is_job_run(null, null), false, 'neither');
select is(_is_job_run(null), false, 'no attempt at all');

set session authorization test_worker;
select throws_ok('select lakequeue._is_job_run(null)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
