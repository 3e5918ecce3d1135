-- Compute cost is in the ledger.
select from_billable, to_billable from lakequeue.task_deltas where false;
select billable from lakequeue.task_rollups where false;
select billable from lakequeue.purged_tasks where false;
select id, agent_id, customer, status, day, currency, tasks, priced, list_cost from lakequeue.compute_deltas where false;
select agent_id, customer, status, day, currency, tasks, priced, list_cost from lakequeue.compute_rollups where false;
select agent_id, customer, status, day, currency, tasks, priced, list_cost from lakequeue.purged_compute where false;
