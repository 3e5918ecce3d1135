set local role lakequeue_owner;

drop table lakequeue.fold_books;

create index tasks_processing on lakequeue.tasks (agent_id, id)
  where status = 'processing';
create index task_attempts_presumed_dead on lakequeue.task_attempts (presumed_dead_at)
  where run_ended_at is null and presumed_dead_at is not null;
