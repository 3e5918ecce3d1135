-- What an agent's report does, once its token was checked (rules 8 to 11). Usage, run id and trace id are recorded in
-- every case; the first report of an attempt decides, every further one is a duplicate.
--
-- task, attempt: ids. The others: see record_callback.
-- Returns accepted, duplicate, superseded, or result_missing (a success without a result of a task that is not final: no
-- state changes, so that the agent can still hand one over).
-- Locks: the task's row, then its attempts.
create or replace function lakequeue._apply_callback(
  task bigint, attempt bigint, outcome text, result json, confidence real,
  input_tokens bigint, output_tokens bigint, cached_tokens bigint, llm_cost numeric, usage_complete boolean,
  error_class text, error json, run_id bigint, trace_id text, retry_after interval)
returns text
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_reserves_calls boolean;
  v_now timestamptz;
  v_before tasks;
  v_after tasks;
  v_attempt task_attempts;
  v_used numeric[];
  v_stored text;
  v_answer text;
begin
  if outcome is null or outcome not in ('success', 'failure', 'permanent_failure', 'rate_limited', 'cancelled') then
    raise exception using errcode = 'LQ400', message = format('"%s" is no outcome', left(outcome, 100)),
      hint = 'Outcomes: success, failure, permanent_failure, rate_limited, cancelled.';
  end if;

  select t.* into v_before from tasks t where t.id = task for no key update;
  if not found then
    perform _check_token(attempt, null);  -- purged while this waited: unknown
  end if;
  select a.* into v_attempt from task_attempts a where a.id = attempt;
  v_now := _now();
  v_used := _task_usage(task);
  v_after := v_before;
  perform _record_usage(attempt, input_tokens, output_tokens, cached_tokens, llm_cost, coalesce(usage_complete, false), 'callback');

  if v_attempt.reported_at is not null then
    v_answer := 'duplicate';
  elsif outcome = 'success' then
    if result is not null then
      v_stored := _store_result(v_before, v_attempt, result, confidence);
    end if;
    v_answer := case
      when v_stored in ('accepted', 'superseded') then v_stored
      when v_attempt.status = 'succeeded' then 'accepted'  -- store_result came first: this confirms it
      when v_before.status not in ('enqueued', 'processing') then 'superseded'
      when exists (select from results r where r.attempt_id = attempt) then 'superseded'
      else 'result_missing'
    end;
    select t.* into v_after from tasks t where t.id = task;
  elsif v_attempt.status <> 'running' then
    v_answer := 'superseded';
  else
    v_after := _end_attempt(v_before, v_attempt,
      (case outcome when 'rate_limited' then 'rate_limited' when 'cancelled' then 'cancelled' else 'failed' end)::attempt_status,
      outcome = 'permanent_failure', error_class, _error_text(error), retry_after);
    if outcome = 'failure' then
      perform _count_outcome(v_before.agent_id, failed => true, error => v_after.error);
    end if;
    v_answer := 'accepted';
  end if;

  update task_attempts a
  set run_id = coalesce(a.run_id, _apply_callback.run_id),
      trace_id = coalesce(a.trace_id, _clean_text(_apply_callback.trace_id, 500)),
      reported_at = case when v_answer = 'result_missing' then a.reported_at else coalesce(a.reported_at, v_now) end,
      run_ended_at = case when v_answer = 'result_missing' then a.run_ended_at else coalesce(a.run_ended_at, v_now) end
  where a.id = attempt
  returning a.reserves_calls into v_reserves_calls;  -- perhaps since a moment ago
  if v_reserves_calls and v_attempt.run_ended_at is null and v_answer <> 'result_missing' then
    perform _close_calls(array[attempt]);
  end if;
  perform _note_change(v_before, v_after, v_used);
  if v_attempt.run_ended_at is null and v_answer <> 'result_missing' and v_before.status = v_after.status then
    perform _nudge('lakequeue_worker');  -- no status changed, but the run's place in the limits is free
  end if;
  return v_answer;
end $$;

comment on function lakequeue._apply_callback(bigint, bigint, text, json, real, bigint, bigint, bigint, numeric,
  boolean, text, json, bigint, text, interval) is 'What an agent''s report does, once its token was checked.';
