set local role lakequeue_owner;

create index tasks_extraction on lakequeue.tasks (extraction_id, id)
  where extraction_id is not null;
create index compute_runs_task on lakequeue.compute_runs (task_id);
