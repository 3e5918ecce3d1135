set local role lakequeue_owner;

alter table lakequeue.task_attempts add unique (task_id, number);
create unique index task_attempts_running on lakequeue.task_attempts (task_id) where status = 'running';
create unique index task_attempts_succeeded on lakequeue.task_attempts (task_id) where status = 'succeeded';
drop index lakequeue.task_attempts_of_task;
