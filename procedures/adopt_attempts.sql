-- Gives a worker the attempts that a dead worker claimed but never recorded a run for. The adopter submits them with
-- the same run key and token, so that a run which was submitted after all is found again, not paid twice.
--
-- worker: the adopter. batch_size: most attempts, 1 to 1000. agents: names of the agents it serves, null for all. A worker
-- of job runs adopts what was claimed for a job, with that very job, one of local runs the rest (see dequeue_tasks).
-- Returns the attempts as dequeue_tasks does, outcome adopted, with a fresh lease. A worker is dead when it stopped, or
--   has been silent for a minute; one that sends no heartbeats (a person at psql), a minute after its claim.
-- Errors: LQ428 not READ COMMITTED; LQ400 bad worker or batch size; LQ404 unknown agent; 55P03 see Locks in
--   db/README.md: call again.
-- Locks: the tasks in id order, skipping locked ones, then their attempts.
create or replace function lakequeue.adopt_attempts(
  worker text, batch_size integer default 10, agents text[] default null)
returns table (
  outcome text, task_id bigint, attempt_id bigint, attempt_number integer, agent text, job_id bigint,
  run_key uuid, callback_token text, customer text, document_path text, payload jsonb, page_count integer,
  priority smallint, estimated_tokens bigint, max_tpm bigint, lease_duration interval,
  lease_expires_at timestamptz, parameters jsonb, model_prices jsonb, reserves_calls boolean)
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
  v_agent_ids integer[] := _agent_ids(agents);
  v_relay text := (select w.relay from workers w where w.name = worker);
  v_task_ids bigint[];
  v_attempt_ids bigint[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('adopt_attempts');
  end if;
  if coalesce(worker, '') = '' or length(worker) > 200 or batch_size is null or batch_size not between 1 and 1000 then
    raise exception using errcode = 'LQ400', message = 'adopt_attempts needs a worker''s name and a batch_size of 1 to 1000',
      hint = 'Example: select * from lakequeue.adopt_attempts(worker => ''me'').';
  end if;

  v_task_ids := array(
    select t.id
    from tasks t
    where t.id = any(array(
        select p.id
        from _running(array(select e.id from model_endpoints e)) a
        left join workers w on w.name = a.worker
        cross join lateral (  -- as in _processing, of the few that are left over
          select k.id, k.cancel_requested_at, k.lease_expires_at
          from tasks k
          where k.id = a.task_id and k.status = 'processing'
          limit 1) p
        where a.agent_id = any(v_agent_ids)
          and a.status = 'running'
          and a.run_id is null
          and (v_relay is null or (v_relay = 'databricks') = (a.job_id is not null))
          and a.worker <> adopt_attempts.worker
          and coalesce(not _alive(w, v_now), a.started_at < v_now - interval '1 minute')
          and p.cancel_requested_at is null
          and p.lease_expires_at > v_now
        order by p.id
        limit batch_size))
      and t.status = 'processing'
    order by t.id
    for no key update skip locked);

  -- Somebody living may have adopted it between the look and the lock.
  with adopted as (
    update task_attempts a
    set worker = adopt_attempts.worker
    where a.task_id = any(v_task_ids) and a.status = 'running' and a.run_id is null and a.worker <> adopt_attempts.worker
      and not exists (select from workers w where w.name = a.worker and _alive(w, v_now))
    returning a.id, a.task_id, a.agent_id
  ), owned as (
    update tasks t
    set locked_by = adopt_attempts.worker, lease_expires_at = greatest(t.lease_expires_at, v_now + g.lease_duration)
    from adopted a
    join agents g on g.id = a.agent_id
    where t.id = a.task_id and t.id = any(v_task_ids)
  )
  select coalesce(array_agg(a.id), '{}') into v_attempt_ids from adopted a;

  perform _log_event('adopted', a.task_id, a.id, a.agent_id, detail => jsonb_build_object('worker', adopt_attempts.worker))
  from task_attempts a where a.id = any(v_attempt_ids);
  return query select c.* from _claims(v_attempt_ids, 'adopted') c;
end $$;

comment on function lakequeue.adopt_attempts(text, integer, text[]) is
  'Gives a worker the attempts of dead workers that have no run yet.';
