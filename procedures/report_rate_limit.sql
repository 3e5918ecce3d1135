-- An agent met a 429 (rule 11): its endpoint cools down for everyone, nothing is claimed there until then. The agent
-- waits it out inside its lease, so that pages already paid for are not thrown away.
--
-- attempt, token: as handed to the run. retry_after: what the endpoint said; by default 10 seconds; at most an hour.
-- Returns until when the endpoint cools. A shorter wait never shortens a longer one; an attempt that has
--   reported its end cools nothing any more, and is told how it stands (null: no cooldown).
-- Errors: LQ428 not READ COMMITTED; LQ404, LQ401; LQ400 a negative wait.
-- Locks: the task's row against purge_tasks only (key share), then the endpoint's row.
create or replace function lakequeue.report_rate_limit(attempt bigint, token text, retry_after interval default null)
returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_task_id bigint := _check_token(attempt, token);
  v_attempt task_attempts;
  v_wait interval := least(coalesce(retry_after, '10 seconds'), '1 hour');
  v_until timestamptz;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('report_rate_limit');
  end if;
  if v_wait < interval '0' then
    raise exception using errcode = 'LQ400', message = 'retry_after cannot be negative',
      hint = 'Leave it out where the endpoint did not say.';
  end if;
  perform from tasks t where t.id = v_task_id for key share;
  if not found then
    perform _check_token(attempt, token);  -- purged while this waited: unknown
  end if;
  select a.* into v_attempt from task_attempts a where a.id = attempt;
  if v_attempt.reported_at is not null then
    return (select e.cooldown_until from model_endpoints e where e.id = v_attempt.endpoint_id);
  end if;
  update model_endpoints e
  set cooldown_until = greatest(e.cooldown_until, _now() + v_wait)
  where e.id = v_attempt.endpoint_id
  returning e.cooldown_until into v_until;
  perform _log_event('rate_limited', v_task_id, attempt, v_attempt.agent_id,
                     detail => jsonb_build_object('endpoint_id', v_attempt.endpoint_id, 'cooldown_until', v_until));
  return v_until;
end $$;

comment on function lakequeue.report_rate_limit(bigint, text, interval) is
  'An agent met a 429: its endpoint cools down for everyone.';
