set local role lakequeue_owner;

drop table lakequeue.compute_costs;

drop table lakequeue.response_histogram;

drop table lakequeue.task_rollups;

drop table lakequeue.task_deltas;
