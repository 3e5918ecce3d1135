-- Parses completed tasks again: each gets a new task linked to it, which takes its dedup_key along. The old task and
-- its result stay as they are. While the new one is unfinished, asking again makes no further one.
--
-- tasks: ids, at most 1,000. reason: why. actor: who, as the web process names them.
-- Returns a row per task, in order: enqueued, with the new task's id in detail; skipped, with the reason in detail.
-- Errors: LQ428 not READ COMMITTED; LQ403 not permitted; LQ400 more than 1,000 tasks.
-- Locks: the tasks' rows in id order.
create or replace function lakequeue.reprocess_tasks(tasks bigint[], reason text default null, actor text default null)
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
  v_task tasks;
  v_new_id bigint;
  v_outcomes jsonb := '{}'::jsonb;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('reprocess_tasks');
  end if;
  perform _check_chunk(tasks);
  v_locked := array(select t.id from tasks t where t.id = any(reprocess_tasks.tasks) order by t.id for no key update);
  for v_task in
    select t.* from tasks t where t.id = any(v_locked) order by t.id
  loop
    outcome := 'skipped';
    select n.id into v_new_id
    from task_events e
    cross join lateral (
      select t.id from tasks t
      where t.id = (e.detail ->> 'new_task')::bigint and t.status in ('enqueued', 'processing')
      limit 1) n
    where e.task_id = v_task.id and e.kind = 'reprocessed';
    if v_task.status <> 'completed' then
      detail := format('it is %s; only completed tasks are reprocessed', v_task.status);
    elsif v_new_id is not null then
      detail := format('task %s is parsing it again already', v_new_id);
    else
      update tasks t set dedup_key = null where t.id = v_task.id and t.dedup_key is not null;
      insert into tasks as t (
        agent_id, extraction_id, customer, document_path, payload, dedup_key, priority, created_at, estimated_tokens,
        page_count, document_bytes, reprocess_of, lane)
      values (
        v_task.agent_id, v_task.extraction_id, v_task.customer, v_task.document_path, v_task.payload, v_task.dedup_key,
        v_task.priority, _now(), v_task.estimated_tokens, v_task.page_count, v_task.document_bytes, v_task.id,
        _return_lane(v_task.agent_id))
      returning t.id into v_new_id;
      insert into task_deltas (agent_id, customer, tasks, to_status) values (v_task.agent_id, v_task.customer, 1, 'enqueued');
      perform _log_event('reprocessed', v_task.id, agent => v_task.agent_id, actor => v_actor, reason => reason,
                         detail => jsonb_build_object('new_task', v_new_id));
      outcome := 'enqueued';
      detail := v_new_id::text;
    end if;
    v_outcomes := v_outcomes || jsonb_build_object(v_task.id::text, jsonb_build_array(outcome, detail));
  end loop;
  return query select o.* from _outcomes(reprocess_tasks.tasks, v_outcomes) o;
end $$;

comment on function lakequeue.reprocess_tasks(bigint[], text, text) is
  'Parses completed tasks again, each as a new task linked to the old one.';
