-- A worker reports that an attempt cannot go on: its submission failed, or its run is known to have ended without a
-- word. A run that has died frees its place in every limit at once, also when its attempt was closed before.
--
-- attempt: its id. error_class, error: what went wrong. permanent: no second try can help. given_back: the worker ended
-- the run itself, since it stops: the attempt is cancelled, the task back in the queue at once, and no failure counts.
-- After a cancel request the attempt and its task are cancelled, whatever the run died of.
-- Returns accepted, or superseded (the attempt was closed already; only the end of its run was noted).
-- Errors: LQ404 unknown attempt; LQ422 see _clean_json.
-- Locks: the task's row, then its attempts.
create or replace function lakequeue.fail_attempt(
  attempt bigint, error_class text, error json default null, permanent boolean default false,
  given_back boolean default false)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_task_id bigint;
  v_before tasks;
  v_after tasks;
  v_attempt task_attempts;
  v_used numeric[];
begin
  select a.task_id into v_task_id from task_attempts a where a.id = attempt;
  if not found then
    raise exception using errcode = 'LQ404', message = format('there is no attempt %s', coalesce(attempt::text, 'null')),
      hint = 'Pass the attempt_id that dequeue_tasks returned.';
  end if;
  select t.* into v_before from tasks t where t.id = v_task_id for no key update;
  select a.* into v_attempt from task_attempts a where a.id = attempt;
  if v_attempt.status <> 'running' then
    update task_attempts a set run_ended_at = _now() where a.id = attempt and a.run_ended_at is null;
    if found then
      perform _close_calls(array[attempt]);
      perform _nudge('lakequeue_worker');  -- its place in the limits is free
    end if;
    return 'superseded';
  end if;
  v_used := _task_usage(v_task_id);
  v_after := _end_attempt(
    v_before, v_attempt,
    (case when given_back or v_before.cancel_requested_at is not null then 'cancelled' else 'failed' end)::attempt_status,
    coalesce(permanent, false), error_class, _error_text(error), null, coalesce(given_back, false));
  if v_before.cancel_requested_at is null and not coalesce(given_back, false) then
    perform _count_outcome(v_before.agent_id, failed => true, error => v_after.error);
  end if;
  perform _note_change(v_before, v_after, v_used);
  return 'accepted';
end $$;

comment on function lakequeue.fail_attempt(bigint, text, json, boolean, boolean) is
  'A worker reports that an attempt''s submission failed, its run died, or it gives the attempt back.';
