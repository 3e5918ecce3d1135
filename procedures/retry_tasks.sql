-- Gives failed or cancelled tasks another chance: back in the queue at their old place, with failures and rate_limited
-- at 0. Where an attempt has stored a result already, the task is completed from it instead: what was paid for is never
-- run again (rule 9).
--
-- tasks: ids, at most 1,000. reason: why. actor: who, as the web process names them.
-- Returns a row per task, in order: enqueued; completed (from a stored result); skipped, with the reason in detail, e.g.
--   the newer task that holds its dedup_key.
-- Errors: LQ428 not READ COMMITTED; LQ403 not permitted; LQ400 more than 1,000 tasks.
-- Locks: the tasks' rows in id order; then waits for open transactions that hold their dedup_keys, in order of the keys.
create or replace function lakequeue.retry_tasks(tasks bigint[], reason text default null, actor text default null)
returns table (task_id bigint, outcome text, detail text)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_actor text := _actor(actor);
  v_locked bigint[];  -- those that were there at the lock: what is committed later was not meant
  v_before tasks;
  v_after tasks;
  v_attempt_id bigint;
  v_outcomes jsonb := '{}'::jsonb;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('retry_tasks');
  end if;
  perform _check_chunk(tasks);
  v_locked := array(select t.id from tasks t where t.id = any(retry_tasks.tasks) order by t.id for no key update);
  -- Keys are taken in the order in which enqueue_tasks takes them; else the two could wait for each other.
  for v_before in
    select t.* from tasks t where t.id = any(v_locked)
    order by t.dedup_key, t.agent_id, t.customer, t.id
  loop
    outcome := 'skipped';
    detail := null;
    if v_before.status not in ('failed', 'cancelled') then
      detail := format('it is %s', v_before.status);
    else
      select r.attempt_id into v_attempt_id
      from task_attempts a
      cross join lateral (select x.attempt_id from results x where x.attempt_id = a.id limit 1) r  -- LIMIT keeps it a probe
      where a.task_id = v_before.id
      order by a.number desc limit 1;
      begin
        if v_attempt_id is not null then
          update task_attempts a set status = 'succeeded', error_class = null, error = null where a.id = v_attempt_id;
          update tasks t set status = 'completed', finished_at = _now(), error = null where t.id = v_before.id
          returning t.* into v_after;
          outcome := 'completed';
          detail := 'a stored result was waiting';
        else
          update tasks t
          set status = 'enqueued', failures = 0, rate_limited = 0, retry_at = null, cancel_requested_at = null,
              passed_over_at = null, error = null, finished_at = null, lane = _return_lane(t.agent_id)
          where t.id = v_before.id
          returning t.* into v_after;
          outcome := 'enqueued';
        end if;
        perform _note_change(v_before, v_after, _task_usage(v_before.id));
        perform _log_event('retried', v_before.id, v_attempt_id, v_before.agent_id, v_actor, reason,
                           jsonb_build_object('from', v_before.status, 'to', v_after.status));
      exception when unique_violation then
        outcome := 'skipped';
        detail := format('task %s holds the same dedup_key', (
          select n.id from tasks n
          where n.agent_id = v_before.agent_id and n.customer = v_before.customer and n.dedup_key = v_before.dedup_key
            and n.status not in ('failed', 'cancelled')));
      end;
    end if;
    v_outcomes := v_outcomes || jsonb_build_object(v_before.id::text, jsonb_build_array(outcome, detail));
  end loop;
  return query select o.* from _outcomes(retry_tasks.tasks, v_outcomes) o;
end $$;

comment on function lakequeue.retry_tasks(bigint[], text, text) is
  'Gives failed or cancelled tasks another chance, or completes them from a stored result.';
