-- Why an agent's next task does not start, or that it would: a row per limit that applies to it, the endpoint's and its
-- own, as dequeue_tasks reads them, but counted.
--
-- agent: its name.
-- Returns scope (endpoint or agent) and the name of whose limit it is; kind (see _kinds; all but tasks per minute);
--   ceiling; used: what is spent of it now; booked: what those that run will probably use in the next minute, which
--   differs for agents that reserve their calls; used_by: used, by agent; room: of the larger of both; calls_waiting: model
--   calls that wait at the endpoint (of an agent's own limit: its own), and calls_waiting_since; demand: what the next
--   claimable task asks, null if none waits; fits: whether that fits, beside what has been passed over there for too long
--   (rule 5); fits_in: when it probably will, null where that depends on runs that have not ended;
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
as $$
begin
  return query
    select x.scope, x.name, x.kind, x.ceiling, x.used, x.booked, x.used_by, x.room, x.calls_waiting, x.calls_waiting_since,
           x.demand, x.fits, x.fits_in, x.waiting_since, x.passed_over_since
    from explain_throttles(array[explain_throttle.agent]) x;
end $$;

comment on function lakequeue.explain_throttle(text) is
  'A row per limit of an agent: what is used of it, by whom, and when the next task fits.';
