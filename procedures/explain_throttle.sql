-- Why an agent's next task does not start, or that it would: a row per limit that applies to it, the endpoint's and its
-- own, as dequeue_tasks reads them.
--
-- agent: its name.
-- Returns scope (endpoint or agent) and the name of whose limit it is; kind (see _kinds; all but tasks per minute);
--   ceiling; used: what is spent of it now; booked: what those that run will probably use in the next minute, which
--   differs for agents that reserve their calls; used_by: used, by agent; room: of the larger of both; calls_waiting: model
--   calls that wait at the endpoint, and calls_waiting_since; demand: what the next claimable task asks, null if none
--   waits; fits: whether that fits; fits_in: when it probably will, null where that depends on runs that have not ended;
--   waiting_since: since when the next task waits; passed_over_since: since when others pass it.
--   An agent without limits has no rows. A pause or a cooldown is in agent_status.
-- Errors: LQ404 unknown agent.
create or replace function lakequeue.explain_throttle(agent text)
returns table (
  scope text, name text, kind text, ceiling bigint, used numeric, booked numeric, used_by jsonb, room numeric,
  calls_waiting bigint, calls_waiting_since timestamptz, demand numeric, fits boolean, fits_in interval,
  waiting_since timestamptz, passed_over_since timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_agent agents := _agent(agent);
  v_endpoint model_endpoints;
  v_since timestamptz;
  v_passed_over_at timestamptz;
  v_demand numeric[];
begin
  select e.* into v_endpoint from model_endpoints e where e.id = v_agent.model_endpoint_id;
  select c.created_at, c.passed_over_at, _demand(v_agent, v_endpoint, _estimate(v_agent, c.page_count, c.document_bytes))
  into v_since, v_passed_over_at, v_demand
  from _candidates(v_agent.id, 1, false) c;

  return query
    with spending as materialized (
      select s.endpoint_id, s.agent_id, s.used
      from _spending(v_agent.model_endpoint_id || v_agent.former_endpoint_ids, true) s
    ), asked as (
      select l.agent_id, k.no, k.kind, k.ceiling, k.used, k.booked, k.demand
      from _limits(array[v_agent.model_endpoint_id], carried => false) l
      cross join lateral unnest(_kinds(), l.ceilings, l.used, l.booked, v_demand)
        with ordinality k(kind, ceiling, used, booked, demand, no)
      where k.ceiling is not null and (l.agent_id is null or l.agent_id = v_agent.id)
    )
    select case when a.agent_id is null then 'endpoint' else 'agent' end,
           case when a.agent_id is null then v_endpoint.name else v_agent.name end,
           a.kind, a.ceiling, a.used, a.booked,
           (select coalesce(jsonb_object_agg(g.name, s.used), '{}')
            from (select s.agent_id, sum(s.used[a.no]) as used from spending s
                  where case when a.agent_id is null then s.endpoint_id = v_endpoint.id else s.agent_id = a.agent_id end
                  group by s.agent_id) s
            join agents g on g.id = s.agent_id
            where s.used > 0),
           greatest(a.ceiling - greatest(a.used, a.booked), 0), w.calls, w.since,
           a.demand, f.fits,
           case when f.fits is null then null
                when f.fits then interval '0'
                when a.kind = 'tasks' or v_agent.reserves_calls then null
                else _room_after(v_endpoint.id, a.agent_id, a.kind,
                                 least(greatest(a.used, a.booked) + a.demand - a.ceiling, greatest(a.used, a.booked))) end,
           v_since, v_passed_over_at
    from asked a
    cross join lateral (
      select case when a.demand is not null
                  then _has_room(a.no::integer, v_agent.reserves_calls, a.ceiling, a.used, a.booked, a.demand) end as fits) f
    cross join lateral (
      select count(*) as calls, min(c.asked_at) as since
      from model_calls c
      where c.endpoint_id = v_endpoint.id and c.granted_at is null and c.seen_at > _now() - interval '10 seconds'
        and a.kind <> 'tasks' and (a.agent_id is null or c.agent_id = a.agent_id)) w
    order by a.agent_id nulls first, a.no;
end $$;

comment on function lakequeue.explain_throttle(text) is
  'A row per limit of an agent: what is used of it, by whom, and when the next task fits.';
