-- What an agent's report does (rules 8 to 11). Usage, run id and trace id are recorded in
-- every case; the first report of an attempt decides, every further one is a duplicate.
--
-- Parameters, errors: see record_callback.
-- Returns accepted, duplicate, superseded, or result_missing (a success without a result of a task that is not final: no
-- state changes, so that the agent can still hand one over).
-- Locks: the task's row, then its attempts.
create or replace function lakequeue._apply_callback(
  attempt bigint, token text, outcome text, result json, confidence double precision,
  input_tokens bigint, output_tokens bigint, cached_tokens bigint, llm_cost numeric, usage_complete boolean,
  error_class text, error json, run_id bigint, trace_id text, retry_after interval)
returns text
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
declare
  v_now timestamptz;
  v_before tasks := _lock_task(attempt, token);
  v_after tasks;
  v_read record;
  v_attempt task_attempts;
  v_reported boolean;
  v_run_ended boolean;
  v_used numeric[];
  v_kept record;
  v_stored text;
  v_answer text;
begin
  if outcome is null or outcome not in ('success', 'failure', 'permanent_failure', 'rate_limited', 'cancelled') then
    raise exception using errcode = 'LQ400', message = format('"%s" is no outcome', left(outcome, 100)),
      hint = 'Outcomes: success, failure, permanent_failure, rate_limited, cancelled.';
  end if;

  select k.* into v_read from _known_of(attempt) k;
  v_attempt := v_read.attempt;
  v_reported := v_attempt.reported_at is not null;
  v_run_ended := v_attempt.run_ended_at is not null;
  v_now := _now();
  v_used := case when v_before.attempt_count = 1 then _attempt_usage(v_attempt) else _task_usage(v_before.id) end;
  v_after := v_before;
  v_attempt := _settle_usage(
    v_attempt, input_tokens, output_tokens, cached_tokens, llm_cost, coalesce(usage_complete, false), 'callback',
    v_read.output_share);
  v_attempt.run_id := coalesce(v_attempt.run_id, run_id);
  v_attempt.trace_id := coalesce(v_attempt.trace_id, _clean_text(trace_id, 500));
  if outcome = 'success' and result is null and not v_reported and v_attempt.status <> 'succeeded'
     and v_before.status in ('enqueued', 'processing')
     and not v_read.stored then
    perform _keep_attempt(v_attempt);
    perform _note_change(v_before, v_before, v_used, case when v_before.attempt_count = 1 then _attempt_usage(v_attempt) end);
    return 'result_missing';
  end if;
  v_attempt.reported_at := coalesce(v_attempt.reported_at, v_now);
  v_attempt.run_ended_at := coalesce(v_attempt.run_ended_at, v_now);

  -- _store_result and _end_attempt write the attempt where it is they who decide how it ended.
  if v_reported then
    v_answer := 'duplicate';
    perform _keep_attempt(v_attempt);
  elsif outcome = 'success' then
    if result is not null then
      v_kept := _store_result(
        v_before, v_attempt, v_read.stored, v_read.reconcile_grace, v_read.failures_in_a_row, result, confidence);
      v_stored := v_kept.answer;
    end if;
    if v_stored = 'accepted' then
      v_after.status := 'completed';
      v_after.finished_at := v_kept.finished_at;
    else
      perform _keep_attempt(v_attempt);
    end if;
    v_answer := case
      when v_stored in ('accepted', 'superseded') then v_stored
      when v_attempt.status = 'succeeded' then 'accepted'  -- store_result came first: this confirms it
      else 'superseded'
    end;
  elsif v_attempt.status <> 'running' then
    v_answer := 'superseded';
    perform _keep_attempt(v_attempt);
  else
    v_after := _end_attempt(v_before, v_attempt,
      (case outcome when 'rate_limited' then 'rate_limited' when 'cancelled' then 'cancelled' else 'failed' end)::attempt_status,
      outcome = 'permanent_failure', error_class, _error_text(error), retry_after);
    if outcome = 'failure' then
      perform _count_outcome(v_before.agent_id, failed => true, error => v_after.error);
    end if;
    v_answer := 'accepted';
  end if;
  perform _note_change(v_before, v_after, v_used, case when v_before.attempt_count = 1 then _attempt_usage(v_attempt) end);
  if not v_run_ended and v_before.status = v_after.status then
    perform _nudge('lakequeue_worker');  -- no status changed, but the run's place in the limits is free
  end if;
  return v_answer;
end $$;

comment on function lakequeue._apply_callback(bigint, text, text, json, double precision, bigint, bigint, bigint, numeric,
  boolean, text, json, bigint, text, interval) is 'What an agent''s report does.';
