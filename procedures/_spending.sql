-- What attempts of these endpoints spend, per endpoint and agent, for the throttle (rules 3 and 4a):
-- running: attempts whose run is not known to have ended; tokens: of those and of the ones that ended within the last
-- 60 seconds, the larger of estimate and used, or what was used where an ended attempt's usage is complete.
-- Without with_window (no token limit applies) the ended ones are left out, which saves reading them.
-- Read it after taking the endpoints' locks, as a statement of its own.
create or replace function lakequeue._spending(endpoints integer[], with_window boolean)
returns table (endpoint_id integer, agent_id integer, running bigint, tokens numeric)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_window_start timestamptz := _now() - interval '60 seconds';
begin
  return query
    with spending as (
      select s.endpoint_id, s.agent_id, true as running,
             greatest(s.estimated_tokens, coalesce(s.input_tokens, 0) + coalesce(s.output_tokens, 0)) as tokens
      from task_attempts s
      where s.endpoint_id = any(endpoints) and s.run_ended_at is null
      union all
      select s.endpoint_id, s.agent_id, false,
             case when s.usage_complete then s.input_tokens + s.output_tokens
                  else greatest(s.estimated_tokens, coalesce(s.input_tokens, 0) + coalesce(s.output_tokens, 0)) end
      from task_attempts s
      where with_window and s.endpoint_id = any(endpoints) and s.run_ended_at > v_window_start)
    select s.endpoint_id, s.agent_id, count(*) filter (where s.running), sum(s.tokens)
    from spending s
    group by s.endpoint_id, s.agent_id;
end $$;

comment on function lakequeue._spending(integer[], boolean) is
  'Attempts that count against limits and tokens of the last 60 seconds, per endpoint and agent.';
