-- Waits until claims that did not wait for the disk (dequeue_tasks with durable => false) are safe from a crash, and says
-- which of them are there and still the worker's: what a crash has undone is not, nor what somebody else has taken since.
-- Only these may start, once the transaction that asked is committed (so ask in autocommit). It takes no lock.
--
-- worker: its name. attempts, run_keys: of the claims, arrays of the same length; the key tells a claim that a crash has
-- undone from a later one that got its id.
-- Returns a row per claim that is there, in order.
-- Errors: LQ400 no worker's name, or arrays that are missing or of different lengths.
create or replace function lakequeue.confirm_claims(worker text, attempts bigint[], run_keys uuid[])
returns table (attempt_id bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  if coalesce(worker, '') = '' or coalesce(cardinality(attempts) <> cardinality(run_keys), true) then
    raise exception using errcode = 'LQ400', message = 'confirm_claims needs a worker''s name and one run key per attempt',
      hint = 'Pass the worker, and two arrays of the same length: attempt_id and run_key, as dequeue_tasks returned them.';
  end if;
  perform _flush_at_commit();
  return query
    select a.id
    from unnest(attempts, run_keys) with ordinality u(attempt, run_key, number)
    cross join lateral (  -- LIMIT keeps it a probe, whatever the table was when this was planned
      select x.id, x.run_key, x.worker, x.status from task_attempts x where x.id = u.attempt limit 1) a
    where a.run_key = u.run_key and a.worker = confirm_claims.worker and a.status = 'running'
    order by u.number;
end $$;

comment on function lakequeue.confirm_claims(text, bigint[], uuid[]) is
  'Waits until claims are safe from a crash, and says which are there and still the worker''s.';
