-- The runs that somebody should look up at the relay now: those whose lease is in its last third or over, those that
-- were asked to cancel, and those that outlived their attempt. Each is handed out once in 10 seconds, whoever asks, so
-- that several workers together ask the relay no more often than one; and once more when its lease and reconcile_grace are
-- over, before the sweep decides (see _expire_leases).
--
-- worker: who asks: its own runs come first. A worker of job runs is given those of jobs, anybody's, one of local runs only
-- its own: no relay is asked for what it cannot know. A name without a row in workers is given all.
-- batch_size: most runs, 1 to 1000.
-- Returns why: lease (extend the lease if it lives, fail_attempt if it is gone), cancel (stop it), lost (stop it, the
--   task is somebody else's now; then fail_attempt, which notes its end).
-- Errors: LQ428 not READ COMMITTED; LQ400 batch_size out of range; 55P03 see Locks in db/README.md: call again.
-- Locks: the tasks of the runs in id order, skipping locked ones, then the attempts.
create or replace function lakequeue.runs_to_check(worker text, batch_size integer default 50)
returns table (attempt_id bigint, task_id bigint, agent text, run_id bigint, run_key uuid, why text)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set lock_timeout = '100ms'
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
  v_relay text := (select w.relay from workers w where w.name = worker);
  v_ids bigint[];
  v_task_ids bigint[];
  v_checked bigint[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('runs_to_check');
  end if;
  if batch_size is null or batch_size not between 1 and 1000 then
    raise exception using errcode = 'LQ400', message = 'batch_size must be 1 to 1000', hint = 'The default is 50.';
  end if;

  v_ids := array(
    with processing as (
      select p.attempt_id as id, p.worker, p.job_id, p.lease_expires_at as due
      from _processing() p
      join agents g on g.id = p.agent_id
      where p.run_id is not null
        and (p.cancel_requested_at is not null or p.lease_expires_at <= v_now + g.lease_duration / 3)
        and coalesce(p.checked_at <= v_now - interval '10 seconds' and p.checked_at < p.lease_expires_at + g.reconcile_grace, true)
    ), outlived as (
      select r.id, r.worker, r.job_id, r.presumed_dead_at as due
      from _running(array(select e.id from model_endpoints e)) r
      where r.presumed_dead_at is not null
        and r.run_id is not null
        and r.status not in ('running', 'succeeded')
        and coalesce(r.checked_at <= v_now - interval '10 seconds', true)
    )
    select d.id
    from (select p.* from processing p union all select o.* from outlived o) d
    where case v_relay when 'local' then d.worker = runs_to_check.worker and d.job_id is null
                       when 'databricks' then d.job_id is not null
                       else true end
    order by d.worker is distinct from runs_to_check.worker, d.due
    limit batch_size);

  -- What somebody else holds is changing now, or is being handed out: it can wait for the next time.
  v_task_ids := array(
    select t.id from tasks t
    where t.id = any(array(select a.task_id from task_attempts a where a.id = any(v_ids)))
    order by t.id
    for no key update skip locked);
  with checked as (
    update task_attempts a set checked_at = v_now
    where a.id = any(v_ids) and a.task_id = any(v_task_ids)
      and a.status <> 'succeeded'
      and coalesce(a.run_ended_at, 'infinity') = 'infinity'  -- as in sweep_leases
      and coalesce(a.checked_at <= v_now - interval '10 seconds', true)
    returning a.id
  )
  select coalesce(array_agg(c.id), '{}') into v_checked from checked c;

  return query
    select a.id, a.task_id, g.name, a.run_id, a.run_key,
           case when a.status <> 'running' then 'lost'
                when t.cancel_requested_at is not null then 'cancel'
                else 'lease' end
    from task_attempts a
    cross join lateral (select x.cancel_requested_at from tasks x where x.id = a.task_id limit 1) t
    join agents g on g.id = a.agent_id
    where a.id = any(v_checked)
    order by array_position(v_ids, a.id);
end $$;

comment on function lakequeue.runs_to_check(text, integer) is
  'Runs to look up now: near the end of their lease, to be cancelled, or outliving their attempt.';
