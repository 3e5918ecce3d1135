-- Ends attempts whose lease and grace have run out; see sweep_leases. Returns how many.
-- A job run is looked up once more before that, whichever worker sweeps: as long as a worker of job runs lives, the sweep
-- waits until runs_to_check has handed it out after lease and grace, and then a minute for what is found.
-- Each row has a savepoint of its own: one that cannot be ended (an event says why) is passed over for a minute.
--
-- batch_size: most attempts in one call.
create or replace function lakequeue._expire_leases(batch_size integer)
returns integer
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_looked_after boolean := exists (select from workers w where w.relay = 'databricks' and _alive(w, v_now));
  v_expired integer := 0;
  v_task_id bigint;
  v_before tasks;
  v_after tasks;
  v_attempt task_attempts;
  v_used numeric[];
begin
  for v_task_id in
    select d.task_id
    from (
      select p.task_id
      from _processing() p
      join agents g on g.id = p.agent_id
      where p.lease_expires_at + g.reconcile_grace <= v_now
        and (not v_looked_after or p.job_id is null or p.run_id is null
             or (p.checked_at >= p.lease_expires_at + g.reconcile_grace and p.checked_at <= v_now - interval '1 minute'))
      offset 0) d  -- or events would be looked for of all that runs
    -- a scalar probe per task: as NOT EXISTS the planner would read all events and hash them
    where (
      select max(e.at) from task_events e
      where e.task_id = d.task_id and e.kind = 'sweep_error' and e.at > v_now - interval '1 minute') is null
    order by d.task_id
    limit batch_size
  loop
    begin
      select t.* into v_before from tasks t
      where t.id = v_task_id and t.status = 'processing'
      for no key update skip locked;
      continue when not found;
      select a.* into strict v_attempt from task_attempts a where a.task_id = v_task_id and a.status = 'running';
      -- A heartbeat may have come between the look and the lock.
      continue when v_before.lease_expires_at
        + (select g.reconcile_grace from agents g where g.id = v_before.agent_id) > v_now;

      v_used := _task_usage(v_task_id);
      v_after := _end_attempt(v_before, v_attempt, 'expired', false, 'lease_expired',
        format('no heartbeat from worker %s by %s', v_before.locked_by, v_before.lease_expires_at), null);
      perform _count_outcome(v_before.agent_id, failed => true, error => v_after.error);
      perform _note_change(v_before, v_after, v_used);
      perform _log_event('lease_expired', v_task_id, v_attempt.id, v_before.agent_id,
                         detail => jsonb_build_object('worker', v_before.locked_by, 'status', v_after.status));
      v_expired := v_expired + 1;
    exception
      when lock_not_available then
        null;  -- no fault of the row: the next sweep will see
      when others then
        perform _log_event('sweep_error', v_task_id, reason => sqlerrm, detail => jsonb_build_object('sqlstate', sqlstate));
    end;
  end loop;
  return v_expired;
end $$;

comment on function lakequeue._expire_leases(integer) is 'Ends attempts whose lease and grace have run out.';
