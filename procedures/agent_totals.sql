-- Counters of each agent since migration 0010, for those who want rates: they never fall, whatever is retried, corrected or
-- purged. For sums of the tasks there are, see queue_metrics and cost_report.
--
-- agents: names, null for all.
-- Returns a row per agent: how often a task of it became completed, failed, cancelled; tokens and USD that were reported.
-- Errors: LQ404 an unknown agent.
create or replace function lakequeue.agent_totals(agents text[] default null)
returns table (
  agent text, completed bigint, failed bigint, cancelled bigint, input_tokens bigint, output_tokens bigint,
  cached_tokens bigint, llm_cost numeric)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_agent_ids integer[] := _agent_ids(agents);
begin
  return query
    select g.name, coalesce(sum(s.completed), 0)::bigint, coalesce(sum(s.failed), 0)::bigint,
           coalesce(sum(s.cancelled), 0)::bigint, coalesce(sum(s.input_tokens), 0)::bigint,
           coalesce(sum(s.output_tokens), 0)::bigint, coalesce(sum(s.cached_tokens), 0)::bigint, coalesce(sum(s.llm_cost), 0)
    from agents g
    left join (
      select r.* from running_totals r
      union all
      select n.* from task_deltas d cross join lateral _delta_gains(d) n where d.id > (select _folded_to())) s on s.agent_id = g.id
    where g.id = any(v_agent_ids)
    group by g.id
    order by g.name;
end $$;

comment on function lakequeue.agent_totals(text[]) is 'Counters of each agent that never fall: outcomes, tokens, cost.';
