-- Cancels tasks. One that waits is cancelled at once. One that is processing is asked to stop: it stays processing, and
-- counts in every limit, until its agent reports, its run dies or its lease and grace run out; a success that comes
-- first wins (rule 3).
--
-- tasks: ids, at most 1,000. reason: why. actor: who, as the web process names them.
-- Returns a row per task, in order: cancelled; requested (it was processing); skipped, with the reason in detail.
-- Errors: LQ428 not READ COMMITTED; LQ403 not permitted; LQ400 more than 1,000 tasks.
-- Locks: the tasks' rows in id order.
create or replace function lakequeue.cancel_tasks(tasks bigint[], reason text default null, actor text default null)
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
  v_outcomes jsonb := '{}'::jsonb;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('cancel_tasks');
  end if;
  perform _check_chunk(tasks);
  -- All locks first: who waits for an enqueue's key never waits for somebody who waits here with changed tasks.
  v_locked := array(select t.id from tasks t where t.id = any(cancel_tasks.tasks) order by t.id for no key update);
  for v_before in
    select t.* from tasks t where t.id = any(v_locked) order by t.id
  loop
    if v_before.status = 'enqueued' then
      update tasks t set status = 'cancelled', finished_at = _now(), retry_at = null where t.id = v_before.id
      returning t.* into v_after;
      perform _note_change(v_before, v_after, _task_usage(v_before.id));
      outcome := 'cancelled';
      detail := null;
    elsif v_before.status = 'processing' and v_before.cancel_requested_at is null then
      update tasks t set cancel_requested_at = _now() where t.id = v_before.id;
      perform _nudge('lakequeue_worker');  -- so that a worker stops the run soon
      outcome := 'requested';
      detail := 'it is processing; its run was asked to stop';
    else
      outcome := 'skipped';
      detail := case when v_before.status = 'processing' then 'it was asked to stop already'
                     else format('it is %s', v_before.status) end;
    end if;
    if outcome <> 'skipped' then
      perform _log_event('cancel_requested', v_before.id, agent => v_before.agent_id, actor => v_actor, reason => reason);
    end if;
    v_outcomes := v_outcomes || jsonb_build_object(v_before.id::text, jsonb_build_array(outcome, detail));
  end loop;
  return query select o.* from _outcomes(cancel_tasks.tasks, v_outcomes) o;
end $$;

comment on function lakequeue.cancel_tasks(bigint[], text, text) is
  'Cancels tasks; those that are processing are asked to stop.';
