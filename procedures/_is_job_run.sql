-- Whether an attempt is a job run, for which compute is billed: it was claimed for a job, and its run is known.
create or replace function lakequeue._is_job_run(attempt lakequeue.task_attempts)
returns boolean
language sql immutable
return attempt.job_id is not null and attempt.run_id is not null;

comment on function lakequeue._is_job_run(lakequeue.task_attempts) is 'Whether an attempt is a job run, for which compute is billed.';
