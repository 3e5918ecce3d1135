-- The breaker: so many failures in a row (the agent's breaker_failures) pause it with the reason, so that a broken
-- release does not burn a whole batch; resume_agent clears it. Verdicts on a document, rate limits and cancels are no
-- failures here. Counted in breaker_books, since each change would leave a version of the agent's row where a snapshot is held.
--
-- agent_id: the agent. failed: whether an attempt failed or succeeded. error: what went wrong last.
-- Locks: the agent's row, if it is free, then its newest book: of outcomes in the same instant one counts, and none waits
--   for another (batches of reports hold locks of many tasks).
create or replace function lakequeue._count_outcome(agent_id integer, failed boolean, error text)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
declare
  v_agent agents;
  v_book breaker_books;
  v_reason text;
begin
  if not failed and coalesce((
       select k.failures from breaker_books k where k.agent_id = _count_outcome.agent_id order by k.no desc limit 1), 0) = 0 then
    return;
  end if;
  select a.* into v_agent from agents a where a.id = _count_outcome.agent_id for no key update skip locked;
  if not found then
    return;
  end if;
  select k.* into v_book from breaker_books k where k.agent_id = v_agent.id order by k.no desc limit 1;
  v_book.failures := case when failed then coalesce(v_book.failures, 0) + 1 else 0 end;
  if v_book.no is null then
    insert into breaker_books (agent_id, failures) values (v_agent.id, v_book.failures);
  else
    update breaker_books k set no = k.no + 1, failures = v_book.failures where k.agent_id = v_agent.id and k.no = v_book.no;
  end if;
  if v_agent.paused_at is null and v_agent.breaker_failures between 1 and v_book.failures then
    v_reason := format('%s failures in a row, the last one: %s', v_book.failures, coalesce(error, 'unknown'));
    update agents a set paused_at = _now(), paused_by = 'breaker', pause_reason = left(v_reason, 4000)
    where a.id = v_agent.id;
    perform _log_event('agent_paused', agent => v_agent.id, actor => 'breaker', reason => v_reason);
  end if;
end $$;

comment on function lakequeue._count_outcome(integer, boolean, text) is
  'The breaker: so many failures in a row pause the agent.';
