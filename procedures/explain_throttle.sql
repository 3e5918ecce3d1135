-- Why an agent's next task does not start, or that it would: a row per limit that applies to it, the endpoint's and its
-- own, as dequeue_tasks reads them.
--
-- agent: its name.
-- Returns scope (endpoint or agent) and the name of whose limit it is; kind (tasks, tokens, input_tokens, output_tokens,
--   requests; all but the first per minute); ceiling; used: what is spent of it now; used_by: that, by agent; room;
--   demand: what the next claimable task asks of it, null if none waits; fits: whether that fits now; fits_in: when it
--   probably will, null where that depends on runs that have not ended; waiting_since: since when the next task waits.
--   An agent without limits has no rows. A pause or a cooldown is in agent_status.
-- Errors: LQ404 unknown agent.
create or replace function lakequeue.explain_throttle(agent text)
returns table (
  scope text, name text, kind text, ceiling bigint, used numeric, used_by jsonb, room numeric, demand numeric,
  fits boolean, fits_in interval, waiting_since timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_agent agents := _agent(agent);
begin
  return query
    with limits as materialized (
      select l.kind, l.ceiling, greatest(l.used, l.booked) as used, l.agent_id
      from _limits(array[v_agent.model_endpoint_id]) l
      where l.agent_id is null or l.agent_id = v_agent.id
    ), spending as materialized (
      select s.kind, s.agent_id, greatest(s.used, s.booked) as used
      from _spending(v_agent.model_endpoint_id || v_agent.former_endpoint_ids, true) s
      where s.endpoint_id = v_agent.model_endpoint_id or s.agent_id = v_agent.id
    ), next_task as (
      select c.created_at, d.*
      from _candidates(v_agent.id, 1, false) c
      cross join lateral _demand(v_agent, c.estimated_tokens) d
    ), asked as (
      select l.*,
             case when n.created_at is null then null
                  else case l.kind when 'tokens' then n.tokens when 'input_tokens' then n.input_tokens
                                   when 'output_tokens' then n.output_tokens else 1 end end as demand,
             n.created_at as waiting_since
      from limits l
      left join next_task n on true
    )
    select case when a.agent_id is null then 'endpoint' else 'agent' end,
           case when a.agent_id is null then e.name else v_agent.name end,
           a.kind, a.ceiling, a.used,
           (select coalesce(jsonb_object_agg(g.name, s.used), '{}')
            from (select s.agent_id, sum(s.used) as used from spending s
                  where s.kind = a.kind and (a.agent_id is null or s.agent_id = a.agent_id) and s.used > 0
                  group by s.agent_id) s
            join agents g on g.id = s.agent_id),
           greatest(a.ceiling - a.used, 0), a.demand, f.fits,
           case when f.fits then interval '0'
                when a.kind = 'tasks' then null
                else _room_after(e.id, a.agent_id, a.kind, least(a.used + a.demand - a.ceiling, a.used)) end,
           a.waiting_since
    from asked a
    join model_endpoints e on e.id = v_agent.model_endpoint_id
    cross join lateral (
      select a.used + a.demand <= a.ceiling or (a.used = 0 and a.kind <> 'tasks') as fits) f
    order by 1 desc, array_position(array['tasks', 'tokens', 'input_tokens', 'output_tokens', 'requests'], a.kind);
end $$;

comment on function lakequeue.explain_throttle(text) is
  'A row per limit of an agent: what is used of it, by whom, and when the next task fits.';
