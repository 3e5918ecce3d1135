-- The breaker: so many failures in a row (the agent's breaker_failures) pause it with the reason, so that a broken
-- release does not burn a whole batch; resume_agent clears it. Verdicts on a document, rate limits and cancels are no
-- failures here.
--
-- agent_id: the agent. failed: whether an attempt failed or succeeded. error: what went wrong last.
-- Locks: the agent's row, if it is free: of outcomes in the same instant one counts, and none waits for another (batches
--   of reports hold locks of many tasks).
create or replace function lakequeue._count_outcome(agent_id integer, failed boolean, error text)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_agent agents;
  v_reason text;
begin
  if not failed and exists (select from agents a where a.id = _count_outcome.agent_id and a.failures_in_a_row = 0) then
    return;
  end if;
  select a.* into v_agent from agents a where a.id = _count_outcome.agent_id for no key update skip locked;
  if not found then
    return;
  end if;
  v_agent.failures_in_a_row := case when failed then v_agent.failures_in_a_row + 1 else 0 end;
  update agents a set failures_in_a_row = v_agent.failures_in_a_row where a.id = v_agent.id;
  if v_agent.paused_at is null and v_agent.breaker_failures between 1 and v_agent.failures_in_a_row then
    v_reason := format('%s failures in a row, the last one: %s', v_agent.failures_in_a_row, coalesce(error, 'unknown'));
    update agents a set paused_at = _now(), paused_by = 'breaker', pause_reason = left(v_reason, 4000)
    where a.id = v_agent.id;
    perform _log_event('agent_paused', agent => v_agent.id, actor => 'breaker', reason => v_reason);
  end if;
end $$;

comment on function lakequeue._count_outcome(integer, boolean, text) is
  'The breaker: so many failures in a row pause the agent.';
