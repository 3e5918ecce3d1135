-- depends: lakequeue-0012-lanes
-- One index over the attempts of a task instead of three: an attempt that runs or has succeeded stands at 0, every other at
-- its number. So a task has one of the former at most, as before, and each attempt an entry less at its claim and at its end.

set local role lakequeue_owner;

create unique index task_attempts_of_task on lakequeue.task_attempts
  (task_id, (case when status in ('running', 'succeeded') then 0 else number end));
drop index lakequeue.task_attempts_running, lakequeue.task_attempts_succeeded;
alter table lakequeue.task_attempts drop constraint task_attempts_task_id_number_key;
