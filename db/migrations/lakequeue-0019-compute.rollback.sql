set local role lakequeue_owner;

drop table lakequeue.purged_compute;
drop table lakequeue.compute_rollups;
drop table lakequeue.compute_deltas;
alter table lakequeue.purged_tasks drop column billable;
alter table lakequeue.task_rollups drop column billable;
alter table lakequeue.task_deltas drop column from_billable, drop column to_billable;
