set local role lakequeue_owner;

drop table lakequeue.running_books;

alter table lakequeue.task_attempts drop column place;
create index task_attempts_spending on lakequeue.task_attempts (endpoint_id, run_ended_at);

drop table lakequeue.claim_books;

drop index lakequeue.tasks_claimable;
create index tasks_claimable on lakequeue.tasks (agent_id, priority desc, created_at, id)
  where status = 'enqueued' and retry_at is null;
alter table lakequeue.tasks drop column lane;
