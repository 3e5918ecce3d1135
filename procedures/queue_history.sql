-- The course of the queue: tasks finished by outcome, and how many waited and ran, by the hour or by the day; from
-- rollups, unfolded deltas and samples, without a look at history.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- Returns a row per hour where the range has at most 7 days, else per day, of the newest 366 at most; in order, up to now.
--   completed, failed, cancelled: tasks that finished then; null where the status was not asked for. enqueued,
--   processing: the most that was counted at once in the samples of that time, null where nobody counted or a customer is asked for.
-- Errors: LQ400 an unknown status; LQ404 an unknown agent.
create or replace function lakequeue.queue_history(
  from_day date default null, to_day date default null, statuses text[] default null, agents text[] default null,
  customers text[] default null)
returns table (
  at timestamptz, until timestamptz, completed bigint, failed bigint, cancelled bigint, enqueued bigint, processing bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_statuses task_status[] := _statuses(statuses);
  v_agent_ids integer[] := _agent_ids(agents);
  v_now timestamptz := _now();
  v_zone text := (select i.time_zone from installation i);
  v_first date;
  v_last date;
  v_hourly boolean;
  v_from timestamptz;
  v_to timestamptz;
begin
  select * into v_first, v_last, v_hourly from _time_range(v_agent_ids, from_day, to_day);
  v_from := v_first::timestamp at time zone v_zone;
  v_to := (v_last + 1)::timestamp at time zone v_zone;
  return query
    with steps as materialized (
      select g.at, g.at + interval '1 hour' as until
      from generate_series(v_from, v_to - interval '1 hour', '1 hour') g(at)
      where v_hourly and g.at <= v_now
      union all
      select d.day at time zone v_zone, (d.day + interval '1 day') at time zone v_zone
      from generate_series(v_first::timestamp, v_last::timestamp, '1 day') d(day)
      where not v_hourly
    ), groups as (
      select r.hour as at, r.status, r.tasks
      from hourly_rollups r
      where v_hourly and r.agent_id = any(v_agent_ids) and r.hour >= v_from and r.hour < v_to
        and (customers is null or r.customer = any(customers))
      union all
      select r.day::timestamp at time zone v_zone, r.status, r.tasks
      from task_rollups r
      where not v_hourly and r.agent_id = any(v_agent_ids) and r.status = any(v_statuses)
        and r.day between v_first and v_last
        and (customers is null or r.customer = any(customers))
      union all
      select case when v_hourly then s.hour else s.day::timestamp at time zone v_zone end, s.status, s.tasks
      from task_deltas d
      cross join lateral _delta_sides(d) s
      where d.id > (select _folded_to()) and s.agent_id = any(v_agent_ids) and s.day between v_first and v_last
        and (customers is null or s.customer = any(customers))
    ), finished as (
      select g.at, sum(g.tasks) filter (where g.status = 'completed') as completed,
             sum(g.tasks) filter (where g.status = 'failed') as failed,
             sum(g.tasks) filter (where g.status = 'cancelled') as cancelled
      from groups g
      group by g.at
    ), counted as (
      select q.at, sum(q.enqueued) as enqueued, sum(q.processing) as processing
      from queue_samples q
      where customers is null and q.agent_id = any(v_agent_ids) and q.at >= v_from and q.at < v_to
      group by q.at
    ), depth as (
      select case when v_hourly then date_trunc('hour', c.at, v_zone) else date_trunc('day', c.at, v_zone) end as at,
             max(c.enqueued) as enqueued, max(c.processing) as processing
      from counted c
      group by 1
    )
    select s.at, s.until,
           (case when 'completed' = any(v_statuses) then coalesce(f.completed, 0) end)::bigint,
           (case when 'failed' = any(v_statuses) then coalesce(f.failed, 0) end)::bigint,
           (case when 'cancelled' = any(v_statuses) then coalesce(f.cancelled, 0) end)::bigint,
           d.enqueued::bigint, d.processing::bigint
    from steps s
    left join finished f on f.at = s.at
    left join depth d on d.at = s.at
    order by s.at;
end $$;

comment on function lakequeue.queue_history(date, date, text[], text[], text[]) is
  'Tasks finished by outcome, waiting and running, by the hour or the day, under one filter.';
