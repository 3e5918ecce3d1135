-- The two sides of a delta: its tasks, with their usage, leave one group (negative) and enter another.
create or replace function lakequeue._delta_sides(delta lakequeue.task_deltas)
returns table (
  agent_id integer, customer text, status lakequeue.task_status, day date, bucket smallint, tasks bigint,
  input_tokens bigint, output_tokens bigint, cached_tokens bigint, llm_cost numeric, hour timestamptz,
  ran bigint, priced bigint, input_told bigint, output_told bigint, cached_told bigint, cost_told bigint, billable bigint)
language sql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
  select delta.agent_id, delta.customer, delta.from_status, delta.from_day, delta.from_bucket, -delta.tasks,
         -delta.from_input_tokens, -delta.from_output_tokens, -delta.from_cached_tokens, -delta.from_llm_cost, delta.from_hour,
         -delta.from_ran, -delta.from_priced, -delta.from_input_told, -delta.from_output_told, -delta.from_cached_told,
         -delta.from_cost_told, -delta.from_billable
  where delta.from_status is not null
  union all
  select delta.agent_id, delta.customer, delta.to_status, delta.to_day, delta.to_bucket, delta.tasks,
         delta.to_input_tokens, delta.to_output_tokens, delta.to_cached_tokens, delta.to_llm_cost, delta.to_hour,
         delta.to_ran, delta.to_priced, delta.to_input_told, delta.to_output_told, delta.to_cached_told, delta.to_cost_told,
         delta.to_billable
$$;

comment on function lakequeue._delta_sides(lakequeue.task_deltas) is 'The two sides of a delta: out of one group, into another.';
