-- What a delta adds to the counters of its agent (see running_totals): how often tasks became final, and usage that was not
-- there before. Nothing is ever taken away: a retry does not undo a failure, a correction downwards counts nothing.
create or replace function lakequeue._delta_gains(delta lakequeue.task_deltas)
returns table (
  agent_id integer, completed bigint, failed bigint, cancelled bigint, input_tokens bigint, output_tokens bigint,
  cached_tokens bigint, llm_cost numeric)
language sql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
  select delta.agent_id, case when o.outcome = 'completed' then delta.tasks else 0 end,
         case when o.outcome = 'failed' then delta.tasks else 0 end,
         case when o.outcome = 'cancelled' then delta.tasks else 0 end,
         greatest(delta.to_input_tokens - delta.from_input_tokens, 0),
         greatest(delta.to_output_tokens - delta.from_output_tokens, 0),
         greatest(delta.to_cached_tokens - delta.from_cached_tokens, 0),
         greatest(delta.to_llm_cost - delta.from_llm_cost, 0)
  from (select case when delta.from_status is distinct from delta.to_status then delta.to_status end as outcome) o
$$;

comment on function lakequeue._delta_gains(lakequeue.task_deltas) is 'What a delta adds to the counters of its agent.';
