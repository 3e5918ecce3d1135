-- The tables of billing have their columns, and one fetch runs at a time.
select id, state, phase, asked_by, usage_from, usage_to, endpoints, runs, more, started_at, seen_at, ended_at,
       workspace_id, statement_id, cancel_requested_at, cancelled_by, billed, ignored, problem
from lakequeue.compute_fetches where false;
select attempt_id, task_id, run_id, fetch_id, asked_at, billed, settled from lakequeue.compute_runs where false;
select attempt_id, task_id, sku, unit, day, currency, quantity, list_cost from lakequeue.compute_costs where false;
select endpoint, sku, unit, day, currency, quantity, list_cost, fetched_at from lakequeue.endpoint_costs where false;
do $$
begin
  assert (select i.indisunique from pg_index i where i.indexrelid = to_regclass('lakequeue.compute_fetches_running')),
    'index compute_fetches_running is missing';
end $$;
