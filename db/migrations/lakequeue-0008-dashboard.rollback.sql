set local role lakequeue_owner;

drop table lakequeue.queue_samples;

drop table lakequeue.hourly_rollups;

alter table lakequeue.task_deltas drop column from_hour, drop column to_hour;

drop index lakequeue.task_events_at;
drop index lakequeue.task_events_kind;
drop index lakequeue.task_events_actor;
drop index lakequeue.task_events_agent;
