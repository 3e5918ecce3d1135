-- Keeps the result of an attempt, and completes its task with it unless that is final already (rules 8 and 9). Success
-- counts from any attempt of the task, also one that the sweep had closed; the first wins. A running attempt that it
-- overtakes is closed as superseded: its run may go on for a while and counts in every limit until it is known, or
-- presumed, to have ended.
--
-- before, attempt: task and attempt as read under the task's row lock, which the caller holds; what the caller has noted
-- in the attempt is written along if the answer is accepted. stored: whether it has a result already.
-- reconcile_grace, failures_in_a_row: its agent's.
-- Returns answer: accepted (the task is completed by it), superseded (kept, but the task was final), or duplicate (the
-- attempt has a result already, which stays); and, if accepted, when the task was finished.
-- Errors: LQ400 a confidence outside 0 to 1; LQ413, LQ422 see _clean_json, _check_json; LQ422 no result.
create or replace function lakequeue._store_result(
  before lakequeue.tasks, attempt lakequeue.task_attempts, stored boolean, reconcile_grace interval,
  failures_in_a_row integer, result json, confidence double precision,
  out answer text, out finished_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_result jsonb := _check_json(_clean_json(result));
begin
  if v_result is null or jsonb_typeof(v_result) = 'null' then
    raise exception using errcode = 'LQ422', message = 'a result cannot be null',
      hint = 'Report a failure through record_callback where there is no result.';
  end if;
  if not confidence between 0 and 1 then
    raise exception using errcode = 'LQ400', message = format('a confidence is 0 to 1, not %s', confidence),
      hint = 'Leave it out where it is not known.';
  end if;
  if stored then
    answer := 'duplicate';
    return;
  end if;
  insert into results (attempt_id, task_id, result, confidence, stored_at)
  values (attempt.id, before.id, v_result, _confidence(confidence), v_now);
  if before.status not in ('enqueued', 'processing') then
    perform _log_event('late_result', before.id, attempt.id, before.agent_id);
    answer := 'superseded';
    return;
  end if;

  if attempt.status <> 'running' then
    perform _log_event('late_success', before.id, attempt.id, before.agent_id);
    update task_attempts a
    set status = 'superseded', ended_at = v_now, presumed_dead_at = greatest(before.lease_expires_at, v_now) + reconcile_grace
    where a.task_id = before.id and a.status = 'running';
  end if;
  attempt.status := 'succeeded';
  attempt.ended_at := coalesce(attempt.ended_at, v_now);
  attempt.error_class := null;
  attempt.error := null;
  attempt.presumed_dead_at := coalesce(
    attempt.presumed_dead_at, greatest(before.lease_expires_at, v_now) + reconcile_grace);
  perform _keep_attempt(attempt);
  update tasks t
  set status = 'completed', finished_at = v_now, locked_by = null, lease_expires_at = null, retry_at = null, error = null
  where t.id = before.id;
  if failures_in_a_row > 0 then
    perform _count_outcome(before.agent_id, failed => false, error => null);
  end if;
  answer := 'accepted';
  _store_result.finished_at := v_now;
end $$;

comment on function lakequeue._store_result(lakequeue.tasks, lakequeue.task_attempts, boolean, interval, integer,
  json, double precision) is 'Keeps the result of an attempt, and completes its task unless that is final.';
