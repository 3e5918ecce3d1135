set local role lakequeue_owner;

drop index lakequeue.task_attempts_rate_limited;
drop index lakequeue.task_events_rate_limited;
