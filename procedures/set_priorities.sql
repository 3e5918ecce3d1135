-- Changes the priority of tasks that are not final. One that waits takes its new place at once; of one that is processing
-- the model calls that wait do, and the task itself should it come back to the queue.
--
-- tasks: ids, at most 1,000. priority: 0 to 9, highest first. reason: why. actor: who, as the web process names them.
-- Returns a row per task, in order: changed, with the priority before in detail; skipped, with the reason.
-- Errors: LQ428 not READ COMMITTED; LQ400 more than 1,000 tasks, or no such priority; LQ403 not permitted.
-- Locks: the tasks' rows in id order, then their waiting model calls.
create or replace function lakequeue.set_priorities(
  tasks bigint[], priority integer, reason text default null, actor text default null)
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
  v_ids bigint[];
  v_task tasks;
  v_outcomes jsonb := '{}'::jsonb;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('set_priorities');
  end if;
  perform _check_chunk(tasks);
  if priority is null or priority not between 0 and 9 then
    raise exception using errcode = 'LQ400', message = 'priority must be 0 to 9', hint = 'The highest goes first.';
  end if;
  -- Only what was locked is worked on: a task whose enqueue commits meanwhile would be changed out of order.
  v_ids := array(select t.id from tasks t where t.id = any(set_priorities.tasks) order by t.id for no key update);
  for v_task in
    select t.* from tasks t where t.id = any(v_ids) order by t.id
  loop
    outcome := 'skipped';
    if v_task.finished_at is not null then
      detail := format('it is %s', v_task.status);
    elsif v_task.priority = set_priorities.priority then
      detail := format('its priority is %s already', v_task.priority);
    else
      update tasks t set priority = set_priorities.priority, lane = _return_lane(t.agent_id) where t.id = v_task.id;
      update model_calls c set priority = set_priorities.priority
      where c.attempt_id = (select a.id from task_attempts a where a.task_id = v_task.id and a.status = 'running')
        and c.granted_at is null;
      outcome := 'changed';
      detail := format('its priority was %s', v_task.priority);
      perform _log_event('priority_set', v_task.id, agent => v_task.agent_id, actor => v_actor, reason => reason,
                         detail => jsonb_build_object('from', v_task.priority, 'to', set_priorities.priority));
    end if;
    v_outcomes := v_outcomes || jsonb_build_object(v_task.id::text, jsonb_build_array(outcome, detail));
  end loop;
  if jsonb_path_exists(v_outcomes, '$.*[*] ? (@ == "changed")') then
    perform _nudge('lakequeue_worker');
    perform _nudge('lakequeue_changes');
  end if;
  return query select o.* from _outcomes(set_priorities.tasks, v_outcomes) o;
end $$;

comment on function lakequeue.set_priorities(bigint[], integer, text, text) is
  'Changes the priority of tasks that are not final.';
