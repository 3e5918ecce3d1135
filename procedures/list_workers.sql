-- The worker processes that live, and those that stopped or were lost in the last day, newest heartbeat first; at most 200.
--
-- Returns state: alive; silent (no heartbeat for a minute, not yet swept); stopped (as it was told to); lost (taken for
--   dead). processing: tasks that it holds.
create or replace function lakequeue.list_workers()
returns table (
  worker text, host text, pid integer, version text, state text, started_at timestamptz, heartbeat_at timestamptz,
  stopped_at timestamptz, processing bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
begin
  return query
    with held as materialized (
      select r.worker, count(*) as tasks
      from _running(array(select e.id from model_endpoints e)) r
      where r.status = 'running'
      group by r.worker
    )
    select w.name, w.host, w.pid, w.version,
           case when _alive(w, v_now) then 'alive'
                when w.stopped_at is null then 'silent'
                when w.stopped_at - w.heartbeat_at >= interval '1 minute' then 'lost'
                else 'stopped' end,
           w.started_at, w.heartbeat_at, w.stopped_at, coalesce(h.tasks, 0)
    from workers w
    left join held h on h.worker = w.name
    where w.stopped_at is null or w.stopped_at > v_now - interval '1 day'
    order by w.heartbeat_at desc, w.name
    limit 200;
end $$;

comment on function lakequeue.list_workers() is 'The worker processes: alive, silent, stopped or lost.';
