-- What is processing: tasks with their running attempts, by way of what runs at all endpoints (_running): there is no index of
-- it, since a snapshot held by somebody else would keep an entry of every task that was claimed. In one snapshot, the caller's.
create or replace function lakequeue._processing()
returns table (
  task_id bigint, agent_id integer, customer text, document_path text, created_at timestamptz, locked_by text,
  lease_expires_at timestamptz, cancel_requested_at timestamptz, attempt_id bigint, worker text, run_id bigint, job_id bigint,
  started_at timestamptz, checked_at timestamptz)
language plpgsql stable
rows 100
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
begin
  return query
    select t.*, r.id, r.worker, r.run_id, r.job_id, r.started_at, r.checked_at
    from _running(array(select e.id from model_endpoints e)) r
    cross join lateral (  -- LIMIT keeps it a probe per task, whatever the statistics say
      select k.id, k.agent_id, k.customer, k.document_path, k.created_at, k.locked_by, k.lease_expires_at, k.cancel_requested_at
      from tasks k
      where k.id = r.task_id and k.status = 'processing'
      limit 1) t
    where r.status = 'running';
end $$;

comment on function lakequeue._processing() is 'Tasks that are processing, with their running attempts.';
