-- How long the newest completed tasks waited and ran: an exact split of the response time over a bounded number of
-- tasks, however long the history. Percentiles of all of them are response_history's.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- sample: how many tasks at most, 1 to 10000; of a rare customer fewer (_newest_completed).
-- Returns one row: tasks looked at; more: there are older ones that were not. Running is the time in attempts, waiting
--   the rest of the time from created_at to finished_at; null where there is no task.
-- Errors: LQ400 sample out of range, an unknown status; LQ404 an unknown agent.
create or replace function lakequeue.response_summary(
  from_day date default null, to_day date default null, statuses text[] default null, agents text[] default null,
  customers text[] default null, sample integer default 1000)
returns table (
  tasks bigint, more boolean, waiting_p50 interval, waiting_p95 interval, running_p50 interval, running_p95 interval)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_sort = off
set enable_bitmapscan = off
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
  v_newest bigint[];
  v_more boolean;
begin
  select n.tasks, n.more into v_newest, v_more from _newest_completed(from_day, to_day, statuses, agents, customers, sample) n;
  return query
    -- all of them at once, in the order of the indexes
    with looked_at as materialized (
      select t.id, t.created_at, t.finished_at from tasks t where t.id = any(v_newest)
    ), attempts as materialized (
      select a.task_id, a.started_at, a.ended_at from task_attempts a where a.task_id = any(v_newest)
    ), times as (
      select least(coalesce(sum(a.ended_at - a.started_at) filter (where a.ended_at <= t.finished_at), '0'),
                   t.finished_at - t.created_at) as running,
             t.finished_at - t.created_at as response
      from looked_at t
      left join attempts a on a.task_id = t.id
      group by t.id, t.created_at, t.finished_at
    )
    select count(*), v_more,
           percentile_cont(0.5) within group (order by s.response - s.running),
           percentile_cont(0.95) within group (order by s.response - s.running),
           percentile_cont(0.5) within group (order by s.running),
           percentile_cont(0.95) within group (order by s.running)
    from times s;
end $$;

comment on function lakequeue.response_summary(date, date, text[], text[], text[], integer) is
  'How long the newest completed tasks waited and ran, under one filter.';
