-- A worker reports that an attempt cannot go on: its submission failed, or its run is known to have ended without a
-- word. A run that has died frees its place in every limit at once, also when its attempt was closed before.
--
-- attempt: its id. error_class, error: what went wrong.
-- outcome: failure (may be tried again), permanent_failure (no second try can help), rate_limited (there was no room for
--   its run: back to the queue after a wait, without counting as a failure), cancelled (somebody stopped its run where it
--   ran: the task is cancelled), given_back (its worker ended the run, since it stops: the task is back in the queue at
--   once, and no failure counts). After a cancel request it is cancelled, whatever the run died of.
-- Returns accepted, or superseded (the attempt was closed already; only the end of its run was noted).
-- Errors: LQ428 not READ COMMITTED; LQ404 unknown attempt; LQ400 no such outcome; LQ413, LQ422 see _clean_json.
-- Locks: the task's row, then its attempts.
create or replace function lakequeue.fail_attempt(
  attempt bigint, error_class text, error json default null, outcome text default 'failure')
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
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('fail_attempt');
  end if;
  if outcome is null or outcome not in ('failure', 'permanent_failure', 'rate_limited', 'cancelled', 'given_back') then
    raise exception using errcode = 'LQ400', message = format('"%s" is no outcome', left(outcome, 100)),
      hint = 'Outcomes: failure, permanent_failure, rate_limited, cancelled, given_back.';
  end if;
  select a.task_id into v_task_id from task_attempts a where a.id = attempt;
  select t.* into v_before from tasks t where t.id = v_task_id for no key update;
  if not found then  -- unknown, or purged while this waited
    raise exception using errcode = 'LQ404', message = format('there is no attempt %s', coalesce(attempt::text, 'null')),
      hint = 'Pass the attempt_id that dequeue_tasks returned.';
  end if;
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
    (case when outcome in ('cancelled', 'given_back') or v_before.cancel_requested_at is not null then 'cancelled'
          when outcome = 'rate_limited' then 'rate_limited'
          else 'failed' end)::attempt_status,
    outcome = 'permanent_failure', error_class, _error_text(error), null, outcome = 'given_back');
  if outcome in ('failure', 'permanent_failure') and v_before.cancel_requested_at is null then
    perform _count_outcome(v_before.agent_id, failed => true, error => v_after.error);
  end if;
  perform _note_change(v_before, v_after, v_used);
  return 'accepted';
end $$;

comment on function lakequeue.fail_attempt(bigint, text, json, text) is
  'A worker reports that an attempt''s submission failed, its run ended without a word, or it gives the attempt back.';
