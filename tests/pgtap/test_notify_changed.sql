-- Rule 14: whatever sets a status nudges watchers; workers are nudged when something may be claimable: a task entered
-- the queue, or left processing and its place. A raw UPDATE that sets the status it finds nudges, too: once too often
-- does no harm. Heartbeats and the like nudge nobody. (Workers: notify_finished and notify_requeued.)
begin;
\ir scenarios.sql
\ir nudges.sql
select plan(40);

-- --- every change of status, raw -----------------------------------------------------------------------------------------

create function pg_temp.change(was task_status, becomes task_status, waits boolean default false)
returns text language plpgsql
as $$
declare
  v_task bigint := new_task();
begin
  if was <> 'enqueued' then
    update tasks t set status = 'processing', locked_by = 'w', lease_expires_at = _now() where t.id = v_task;
  end if;
  if was not in ('enqueued', 'processing') then
    update tasks t set status = was, locked_by = null, lease_expires_at = null, finished_at = _now() where t.id = v_task;
  end if;
  -- each statement sets what the constraints ask for, and no other column
  return nudged(format('update lakequeue.tasks set status = %L', becomes)
    || case when 'processing' in (was, becomes) then
         case when becomes = 'processing' then ', locked_by = ''w'', lease_expires_at = now()' else ', locked_by = null, lease_expires_at = null' end
       else '' end
    || case when waits then ', retry_at = now()' else '' end
    || case when (was in ('enqueued', 'processing')) <> (becomes in ('enqueued', 'processing')) then
         case when becomes in ('enqueued', 'processing') then ', finished_at = null' else ', finished_at = now()' end
       else '' end
    || format(' where id = %s', v_task));
end $$;
select is(pg_temp.change(v.was::task_status, v.becomes::task_status, v.waits), v.nudged, format('%s → %s%s', v.was, v.becomes, case when v.waits then ' to wait' end))
from (values
  ('enqueued', 'processing', false, 'changes'), ('enqueued', 'completed', false, 'changes, worker'), ('enqueued', 'cancelled', false, 'changes, worker'),
  ('processing', 'enqueued', false, 'changes, worker'), ('processing', 'enqueued', true, 'changes, worker'),
  ('processing', 'completed', false, 'changes, worker'), ('processing', 'failed', false, 'changes, worker'), ('processing', 'cancelled', false, 'changes, worker'),
  ('failed', 'enqueued', false, 'changes, worker'), ('cancelled', 'enqueued', false, 'changes, worker'),
  ('failed', 'completed', false, 'changes'), ('cancelled', 'completed', false, 'changes'),
  ('enqueued', 'enqueued', false, 'changes, worker'), ('processing', 'processing', false, 'changes'), ('completed', 'completed', false, 'changes'),
  ('failed', 'failed', false, 'changes'), ('cancelled', 'cancelled', false, 'changes'), ('enqueued', 'enqueued', true, 'changes, worker')) v(was, becomes, waits, nudged);

-- statements that change many, or none
select is(nudged('update tasks set status = ''processing'', locked_by = ''w'', lease_expires_at = now() where status = ''enqueued'' and retry_at is null'), 'changes',
          'many at once');
select is(nudged('update tasks set status = ''failed'', locked_by = null, lease_expires_at = null, finished_at = now() where status = ''processing'''), 'changes, worker',
          'many that free room');
select is(nudged('update tasks set priority = 1 where id = 0'), 'nobody', 'a statement that changes no row');
select is(nudged('update tasks set priority = 1'), 'nobody', 'one that changes every row but no status');

-- --- through the functions ------------------------------------------------------------------------------------------------

select new_task() as task \gset
select is(nudged(format('select claim(%s)', :task)), 'changes', 'a claim: there is no more to claim than before');
select a.id as a from task_attempts a where a.task_id = :task and a.status = 'running' \gset
select advance('1 min') \gset
select is(nudged(format('select extend_leases(array[%s], array[token(%1$s)])', :a)), 'nobody', 'a heartbeat');
select is(nudged(format('select extend_leases(array[%s], array[token(%1$s)], array[5], array[5])', :a)), 'nobody', 'a heartbeat with usage');
select is(nudged(format('select record_runs(array[%s], array[5])', :a)), 'nobody', 'a run that was submitted');
select is(nudged('select worker_heartbeat(''w1'')'), 'nobody', 'a worker''s heartbeat');
select is(nudged('select runs_to_check(''w1'')'), 'nobody', 'a look for runs to check');
select is(nudged('select sweep_leases()'), 'nobody', 'a sweep that finds nothing');
select is(nudged(format('select report_rate_limit(%s, token(%1$s))', :a)), 'nobody', 'a rate limit');
select is(nudged(format('select cancel_task(%s)', :task)), 'worker', 'a request to stop: a worker is to see to it');
select is(nudged(format('select report(%s, ''success'', ''1'')', :a)), 'changes, worker', 'a success frees a place');
select is(nudged(format('select report(%s, ''success'', ''1'')', :a)), 'nobody', 'its repeat does not');
select is(nudged(format('select record_usage(%s, 5, 5)', :a)), 'nobody', 'settled usage changes no status');

-- A due retry is claimable again; its status does not change.
select start() as a \gset
select report(:a, 'failure') \gset
select advance('1 min') \gset
select is(nudged('select sweep_leases()'), 'worker', 'a due retry');

-- The place of a run that outlived its attempt gets free without any change of status.
select start() as a \gset
select store(:a) \gset
select is(nudged(format('select report(%s, ''success'')', :a)), 'worker', 'a confirmation frees the place of the run');
select attempt_in('superseded') as lost \gset
select is(nudged(format('select fail_attempt(%s, ''stopped'')', :lost)), 'worker', 'so does a run that is known dead');
select is(nudged(format('select fail_attempt(%s, ''stopped'')', :lost)), 'nobody', 'once');
select attempt_in('superseded') as lost \gset
select advance('10 min') \gset
select is(nudged('select sweep_leases()'), 'worker', 'or presumed dead');

select ok(t.tgenabled = 'O', 'the trigger is enabled') from pg_trigger t where t.tgrelid = 'lakequeue.tasks'::regclass and t.tgname = 'notify_changed';
select * from finish();
rollback;
