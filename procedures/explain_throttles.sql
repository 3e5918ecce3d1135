-- explain_throttle for many agents in one call and one count, with the two things that a reader asks next: which limits
-- the next task waits for, and which one is the tightest. The dashboard and `lakequeue status` read this.
--
-- agents: names, null for all.
-- Returns a row per agent and limit: agent, the columns of explain_throttle, and
--   taken: the larger of used and booked as a part of the ceiling, above 1 where it is overrun;
--   binds: whether the next task waits for this limit; no when none waits;
--   tightest: yes for one row of each agent: of the limits that bind the one that will have room last (not known when
--   comes after all that is known), else the one of which most is taken.
--   An agent without limits has no rows.
-- Errors: LQ404 an unknown agent.
create or replace function lakequeue.explain_throttles(agents text[] default null)
returns table (
  agent text, scope text, name text, kind text, ceiling bigint, used numeric, booked numeric, used_by jsonb, room numeric,
  calls_waiting bigint, calls_waiting_since timestamptz, demand numeric, fits boolean, fits_in interval,
  waiting_since timestamptz, passed_over_since timestamptz, taken numeric, binds boolean, tightest boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
  v_agent_ids integer[] := _agent_ids(agents);
  v_endpoints integer[];
  v_counted integer[];
begin
  select coalesce(array_agg(distinct a.model_endpoint_id), '{}'),
         coalesce(array_agg(distinct f.id) filter (where f.id is not null), '{}')
  into v_endpoints, v_counted
  from agents a left join lateral unnest(a.former_endpoint_ids) f(id) on true
  where a.id = any(v_agent_ids);
  v_counted := array(select distinct c.id from unnest(v_endpoints || v_counted) c(id));

  return query
    with heads as materialized (  -- the next task of each agent
      select a.id as agent_id, a.name as agent, a.reserves_calls, e.id as endpoint_id, e.name as endpoint,
             c.priority, c.created_at, c.id, c.passed_over_at,
             case when c.id is not null then _demand(a, e, _estimate(a, c.page_count, c.document_bytes)) end as demand
      from agents a
      join model_endpoints e on e.id = a.model_endpoint_id
      left join lateral _candidates(a.id, 1) c on true
      where a.id = any(v_agent_ids)
    ), overdue as materialized (  -- those for which room is kept
      select e.id as endpoint_id, a.id as agent_id, c.priority, c.created_at, c.id,
             _demand(a, e, _estimate(a, c.page_count, c.document_bytes)) as demand
      from model_endpoints e
      join agents a on a.model_endpoint_id = e.id
      cross join lateral _candidates(a.id, 64) c
      where e.id = any(v_endpoints) and e.overdue_at <= v_now and a.paused_at is null
        and c.passed_over_at <= v_now - e.max_passed_over
    ), spending as materialized (
      select s.endpoint_id, s.agent_id, u.no, sum(u.used) as used
      from _spending(v_counted, true) s
      cross join lateral unnest(s.used) with ordinality u(used, no)
      where u.used > 0
      group by s.endpoint_id, s.agent_id, u.no
    ), spenders as materialized (
      select s.endpoint_id, null::integer as agent_id, s.no, jsonb_object_agg(g.name, s.used) as used_by
      from spending s join agents g on g.id = s.agent_id
      group by s.endpoint_id, s.no
      union all
      select null, s.agent_id, s.no, jsonb_build_object(g.name, sum(s.used))
      from spending s join agents g on g.id = s.agent_id
      group by s.agent_id, g.name, s.no
    ), calls as materialized (
      select c.endpoint_id, c.agent_id, count(*) as waiting, min(c.asked_at) as since
      from _open_calls(v_endpoints, only_waiting => true) c
      where _still_asks(c, v_now)
      group by grouping sets ((c.endpoint_id), (c.agent_id))
    ), limits as materialized (
      select h.*, l.agent_id as holder, k.no::integer as no, k.kind, k.ceiling, k.used, k.booked, k.demand as asked,
             greatest(k.used, k.booked) + o.demand as taken,
             case when k.demand is not null
                  then _has_room(k.no::integer, h.reserves_calls, k.ceiling, k.used + o.demand, k.booked + o.demand, k.demand) end as fits
      from heads h
      join _limits(v_endpoints, from_books => false) l
        on l.endpoint_id = h.endpoint_id and (l.agent_id is null or l.agent_id = h.agent_id)
      cross join lateral unnest(_kinds(), l.ceilings, l.used, l.booked, h.demand)
        with ordinality k(kind, ceiling, used, booked, demand, no)
      cross join lateral (
        select case when k.no > 1 then coalesce(sum(v.demand[k.no]), 0) else 0 end as demand
        from overdue v
        where v.endpoint_id = h.endpoint_id and v.id <> h.id and coalesce(v.agent_id = l.agent_id, true)
          and (v.priority > h.priority or (v.priority = h.priority and (v.created_at, v.id) < (h.created_at, h.id)))) o
      where k.ceiling is not null
    ), explained as (
      select l.agent, case when l.holder is null then 'endpoint' else 'agent' end as scope,
             case when l.holder is null then l.endpoint else l.agent end as name, l.no, l.kind, l.ceiling, l.used, l.booked,
             coalesce(s.used_by, '{}') as used_by, greatest(l.ceiling - greatest(l.used, l.booked), 0) as room,
             coalesce(w.waiting, 0) as waiting, w.since, l.asked, l.fits,
             case when l.fits then interval '0'
                  when l.no > 1 and not l.reserves_calls
                  then _room_after(l.endpoint_id, l.holder, l.kind, least(l.taken + l.asked - l.ceiling, l.taken)) end as fits_in,
             l.created_at, l.passed_over_at, greatest(l.used, l.booked) / l.ceiling as taken, coalesce(not l.fits, false) as binds
      from limits l
      left join spenders s on s.no = l.no and case when l.holder is null then s.endpoint_id = l.endpoint_id else s.agent_id = l.holder end
      left join calls w on l.no > 1 and case when l.holder is null then w.endpoint_id = l.endpoint_id else w.agent_id = l.holder end
    )
    select x.agent, x.scope, x.name, x.kind, x.ceiling, x.used, x.booked, x.used_by, x.room, x.waiting, x.since, x.asked,
           x.fits, x.fits_in, x.created_at, x.passed_over_at, x.taken, x.binds,
           row_number() over (
             partition by x.agent order by x.binds desc, x.fits_in desc nulls first, x.taken desc, x.scope desc, x.no) = 1
    from explained x
    order by x.agent, x.scope desc, x.no;
end $$;

comment on function lakequeue.explain_throttles(text[]) is
  'explain_throttle for many agents, and which limit binds and which is the tightest.';
