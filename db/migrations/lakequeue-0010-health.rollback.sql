set local role lakequeue_owner;

drop table lakequeue.running_totals;

drop table lakequeue.upkeep;
