-- Ends a running attempt in any way but success, and decides what becomes of its task (rules 3, 7, 11): cancelled if
-- that was asked for; back to the queue while failures (or rate_limited) leave room; else failed.
--
-- before, attempt: task and running attempt as read under the task's row lock, which the caller holds; what the caller has
-- noted in the attempt is written along.
-- how: failed, expired, rate_limited or cancelled (its agent or somebody at the relay stopped it, asked for here or not:
-- the task is cancelled); its run is taken to have ended. permanent: no second try can help.
-- error_class, error: what went wrong; the task always shows one of them, or how the attempt ended.
-- retry_after: the wait that a rate limit asked for; more than an hour counts as an hour. given_back: its worker ended the
-- run for reasons of its own: back to the queue at once, and no failure.
-- Returns the task as it is now. After a failure or a rate limit it waits by _retry_delay; after an expired lease it does
-- not, since that was its worker's fault; max_attempts ends a crash loop.
create or replace function lakequeue._end_attempt(
  before lakequeue.tasks, attempt lakequeue.task_attempts, how lakequeue.attempt_status, permanent boolean,
  error_class text, error text, retry_after interval, given_back boolean default false)
returns lakequeue.tasks
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_agent agents;
  v_failures integer := before.failures + (how in ('failed', 'expired'))::integer;
  v_rate_limited integer := before.rate_limited + (how = 'rate_limited')::integer;
  v_error_class text := _clean_text(error_class, 200);
  v_status task_status;
  v_retry_at timestamptz;
  v_after tasks;
begin
  select a.* into v_agent from agents a where a.id = before.agent_id;

  v_status := (case
    when before.cancel_requested_at is not null then 'cancelled'
    when given_back then 'enqueued'
    when how = 'cancelled' then 'cancelled'
    when how = 'rate_limited' and v_rate_limited > v_agent.max_rate_limited then 'failed'
    when how <> 'rate_limited' and (permanent or v_failures >= v_agent.max_attempts) then 'failed'
    else 'enqueued'
  end)::task_status;
  if v_status = 'enqueued' and how = 'failed' then
    v_retry_at := v_now + _retry_delay(v_failures, v_agent.retry_base, v_agent.retry_cap);
  elsif v_status = 'enqueued' and how = 'rate_limited' then
    select greatest(e.cooldown_until, v_now + greatest(
             least(coalesce(retry_after, '0'), interval '1 hour'), _retry_delay(v_rate_limited, v_agent.retry_base, v_agent.retry_cap)))
    into v_retry_at
    from model_endpoints e where e.id = attempt.endpoint_id;
  end if;

  attempt.status := how;
  attempt.ended_at := v_now;
  attempt.run_ended_at := v_now;
  attempt.error_class := v_error_class;
  attempt.error := _end_attempt.error;
  perform _keep_attempt(attempt);
  update tasks t
  set status = v_status, failures = v_failures, rate_limited = v_rate_limited, retry_at = v_retry_at,
      lane = case when v_status = 'enqueued' then _return_lane(t.agent_id) else t.lane end,
      locked_by = null, lease_expires_at = null,
      cancel_requested_at = case when v_status = 'cancelled' then t.cancel_requested_at end,
      error = coalesce(_end_attempt.error, v_error_class, nullif(how, 'cancelled')::text),
      finished_at = case when v_status <> 'enqueued' then v_now end
  where t.id = before.id
  returning t.* into v_after;
  return v_after;
end $$;

comment on function lakequeue._end_attempt(lakequeue.tasks, lakequeue.task_attempts, lakequeue.attempt_status,
  boolean, text, text, interval, boolean) is
  'Ends a running attempt in any way but success, and decides what becomes of its task.';
