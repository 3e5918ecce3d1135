-- Stops claims of an agent; what runs goes on. Pausing a paused agent changes who and why, not since when.
--
-- agent: its name. reason: why, shown to everybody. actor: who, as the web process names them.
-- Errors: LQ404 unknown agent; LQ403 not permitted.
-- Locks: the one of changes to agents, so that it stays at its endpoint; the endpoint's throttle lock, so that no
--   dequeue under way claims after this returns.
create or replace function lakequeue.pause_agent(agent text, reason text default null, actor text default null)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_actor text := _actor(actor);
  v_agent agents;
begin
  perform pg_advisory_xact_lock(_lock_class(), -4);
  v_agent := _agent(agent);
  perform pg_advisory_xact_lock(_lock_class(), v_agent.model_endpoint_id);
  update agents a
  set paused_at = coalesce(a.paused_at, _now()), paused_by = v_actor, pause_reason = _clean_text(reason, 4000)
  where a.id = v_agent.id;
  perform _log_event('agent_paused', agent => v_agent.id, actor => v_actor, reason => reason);
end $$;

comment on function lakequeue.pause_agent(text, text, text) is 'Stops claims of an agent; what runs goes on.';
