-- Percentiles of the response time of completed tasks, by the hour or by the day, and over all: merged from histograms and
-- unfolded deltas, never averaged, without a look at history.
--
-- from_day, to_day, agents, customers: the filter, as in queue_metrics.
-- Returns a row per hour in which tasks were completed, where the range has at most 7 days and all of them are among the
--   last 35, else per such day of the newest 366, in order; and last one for all of them (at and day null), if any. p50
--   and p95 are from created_at to finished_at, right within 2.5 %.
-- Errors: LQ404 an unknown agent.
create or replace function lakequeue.response_history(
  from_day date default null, to_day date default null, agents text[] default null, customers text[] default null)
returns table (at timestamptz, until timestamptz, day date, tasks bigint, p50 interval, p95 interval)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_agent_ids integer[] := _agent_ids(agents);
  v_zone text := (select i.time_zone from installation i);
  v_first date;
  v_last date;
  v_hourly boolean;
begin
  select * into v_first, v_last, v_hourly from _time_range(v_agent_ids, from_day, to_day);
  v_hourly := v_hourly and v_first > _day(_now()) - 35;
  return query
    with buckets as (
      select r.* from _responses(v_agent_ids, customers, v_first, v_last, case when v_hourly then 'hour' else 'day' end) r
      union all
      select r.* from _responses(v_agent_ids, customers, from_day, to_day) r
    ), ranked as (
      select b.at, b.bucket, sum(b.tasks::float8) over (partition by b.at order by b.bucket) as up_to
      from buckets b
    ), steps as (
      select r.at, case when not v_hourly then (r.at at time zone 'UTC')::date end as day, max(r.up_to) as total,
             array_agg(r.bucket order by r.bucket) as buckets, array_agg(r.up_to order by r.bucket) as up_to
      from ranked r
      group by r.at
    )
    select coalesce(s.day::timestamp at time zone v_zone, s.at),
           coalesce((s.day + 1)::timestamp at time zone v_zone, s.at + interval '1 hour'),
           coalesce(s.day, (s.at at time zone v_zone)::date), s.total::bigint,
           -- the first bucket up to which that part is reached: width_bucket halves the sums, which are whole
           make_interval(secs => power(1.05::float8, s.buckets[1 + width_bucket(ceil(0.5 * s.total) - 0.5, s.up_to)] - 0.5)),
           make_interval(secs => power(1.05::float8, s.buckets[1 + width_bucket(ceil(0.95 * s.total) - 0.5, s.up_to)] - 0.5))
    from steps s
    where s.total > 0
    order by 1 nulls last;
end $$;

comment on function lakequeue.response_history(date, date, text[], text[]) is
  'Percentiles of the response time by the hour or the day and over all, under one filter.';
