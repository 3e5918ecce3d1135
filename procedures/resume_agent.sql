-- Lets a paused agent go on, its breaker counting from 0 again, and nudges the workers. Resuming one that is not paused
-- changes nothing.
--
-- agent: its name. reason: why. actor: who, as the web process names them.
-- Errors: LQ404 unknown agent; LQ403 not permitted.
-- Locks: the agent's row, its book of the breaker, then the endpoint's row.
create or replace function lakequeue.resume_agent(agent text, reason text default null, actor text default null)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
declare
  v_actor text := _actor(actor);
  v_agent agents := _agent(agent);
begin
  update agents a set paused_at = null, paused_by = null, pause_reason = null
  where a.id = v_agent.id and a.paused_at is not null;
  if found then
    update breaker_books k set no = k.no + 1, failures = 0
    where k.agent_id = v_agent.id and k.no = (
      select b.no from breaker_books b where b.agent_id = v_agent.id order by b.no desc limit 1);
    -- Its tasks may have been passed over for too long already: dequeue looks.
    update model_endpoints e set overdue_at = _now() where e.id = v_agent.model_endpoint_id;
    perform _log_event('agent_resumed', agent => v_agent.id, actor => v_actor, reason => reason);
    perform _nudge('lakequeue_worker');
  end if;
end $$;

comment on function lakequeue.resume_agent(text, text, text) is 'Lets a paused agent go on.';
