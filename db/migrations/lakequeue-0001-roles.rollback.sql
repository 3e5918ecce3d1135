set local role lakequeue_owner;

drop type lakequeue.attempt_status;

drop type lakequeue.task_status;

alter default privileges for role lakequeue_owner grant execute on functions to public;

drop schema lakequeue;
