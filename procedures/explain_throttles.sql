-- explain_throttle for many agents in one call, with the two things that a reader asks next: which limits the next task
-- waits for, and which one is the tightest. The dashboard and `lakequeue status` read this.
--
-- agents: names, null for all.
-- Returns a row per agent and limit: agent, the columns of explain_throttle, and
--   taken: the larger of used and booked as a part of the ceiling, above 1 where it is overrun;
--   binds: whether the next task waits for this limit; no when none waits;
--   tightest: yes for one row of each agent: of the limits that bind the one that will have room last (not known when
--   comes after all that is known), else the one of which most is taken.
--   An agent without limits has no rows.
-- Each agent costs a call of explain_throttle; what they tell of a shared endpoint may be a moment apart.
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
set jit = off
as $$
#variable_conflict use_column
declare
  v_agent_ids integer[] := _agent_ids(agents);
begin
  return query
    with limits as materialized (
      select g.name as agent, x.*, greatest(x.used, x.booked) / x.ceiling as taken, coalesce(not x.fits, false) as binds
      from agents g
      cross join lateral explain_throttle(g.name) x
      where g.id = any(v_agent_ids)
    )
    select l.agent, l.scope, l.name, l.kind, l.ceiling, l.used, l.booked, l.used_by, l.room, l.calls_waiting,
           l.calls_waiting_since, l.demand, l.fits, l.fits_in, l.waiting_since, l.passed_over_since, l.taken, l.binds,
           row_number() over (
             partition by l.agent
             order by l.binds desc, l.fits_in desc nulls first, l.taken desc, l.scope desc, array_position(_kinds(), l.kind)) = 1
    from limits l
    order by l.agent, l.scope desc, array_position(_kinds(), l.kind);
end $$;

comment on function lakequeue.explain_throttles(text[]) is
  'explain_throttle for many agents, and which limit binds and which is the tightest.';
