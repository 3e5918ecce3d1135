-- All about one task as JSON: its row, attempts, result, events as a timeline, usage of all attempts, and which actions can
-- concern it. No secrets.
--
-- A running attempt has heartbeat_at: when its lease was last extended, by its agent or by a worker that found its run alive.
-- It is read off the lease, so that heartbeats write nothing more; it is wrong by the difference while a changed
-- lease_duration has not come to a heartbeat yet, but never before the claim or in the future.
-- task: its id. Errors: LQ404 unknown task.
create or replace function lakequeue.task_detail(task bigint)
returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_detail jsonb;
begin
  select jsonb_build_object(
    'task', to_jsonb(t) - 'agent_id' || jsonb_build_object('agent', g.name),
    'attempts', (
      select coalesce(jsonb_agg(
        to_jsonb(a) - array['run_key', 'agent_id', 'task_id']
          || case when a.status = 'running' then jsonb_build_object(
               'heartbeat_at', greatest(a.started_at, least(_now(), t.lease_expires_at - g.lease_duration))) else '{}' end
        order by a.number), '[]')
      from task_attempts a where a.task_id = t.id),
    'result', r.result,
    'confidence', r.confidence,
    'usage', (
      select to_jsonb(c) - 'task_id' from task_costs c where c.task_id = t.id),
    'actions', (
      select coalesce(jsonb_agg(n.action order by n.place), '[]')
      from unnest('{cancel, retry, reprocess, priority}'::text[]) with ordinality n(action, place)
      where t.status = any(_concerned(n.action)) and not (n.action = 'cancel' and t.cancel_requested_at is not null)),
    'timeline', (
      select coalesce(jsonb_agg(to_jsonb(l) - 'task_id' order by l.at, l.attempt_number, l.kind), '[]')
      from task_timeline l where l.task_id = t.id))
  into v_detail
  from tasks t
  join agents g on g.id = t.agent_id
  -- LIMIT keeps them probes: planned while there was little, a join reads all there is
  left join lateral (select k.id from task_attempts k where k.task_id = t.id and k.status = 'succeeded' limit 1) a on true
  left join lateral (select k.result, k.confidence from results k where k.attempt_id = a.id limit 1) r on true
  where t.id = task;
  if v_detail is null then
    raise exception using errcode = 'LQ404', message = format('there is no task %s', coalesce(task::text, 'null')),
      hint = 'lakequeue.list_tasks() shows the tasks there are.';
  end if;
  return v_detail;
end $$;

comment on function lakequeue.task_detail(bigint) is 'All about one task: row, attempts, result, usage, actions and timeline.';
