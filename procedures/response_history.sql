-- Percentiles of the response time of completed tasks, day by day and over all: merged from the histogram and unfolded
-- deltas, never averaged, without a look at history.
--
-- from_day, to_day, agents, customers: the filter, as in queue_metrics.
-- Returns a row per day on which tasks were completed, in order, and last one for all of them (day null), if any. p50
--   and p95 are from created_at to finished_at, right within 2.5 %.
-- Errors: LQ404 an unknown agent.
create or replace function lakequeue.response_history(
  from_day date default null, to_day date default null, agents text[] default null, customers text[] default null)
returns table (day date, tasks bigint, p50 interval, p95 interval)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_agent_ids integer[] := _agent_ids(agents);
begin
  return query
    with counted as (
      select h.day, h.bucket, h.tasks
      from response_histogram h
      where h.agent_id = any(v_agent_ids)
        and h.day >= coalesce(from_day, h.day) and h.day <= coalesce(to_day, h.day)
        and (customers is null or h.customer = any(customers))
      union all
      select s.day, s.bucket, s.tasks
      from task_deltas d
      cross join lateral _delta_sides(d) s
      where s.agent_id = any(v_agent_ids) and s.bucket is not null
        and s.day >= coalesce(from_day, s.day) and s.day <= coalesce(to_day, s.day)
        and (customers is null or s.customer = any(customers))
    ), buckets as (
      select c.day, c.bucket, sum(c.tasks) as tasks
      from counted c
      group by grouping sets ((c.day, c.bucket), (c.bucket))
      having sum(c.tasks) > 0
    ), ranked as (
      select b.day, b.bucket, sum(b.tasks) over (partition by b.day order by b.bucket) as up_to,
             sum(b.tasks) over (partition by b.day) as total
      from buckets b
    )
    select r.day, max(r.total)::bigint,
           make_interval(secs => power(1.05::double precision, min(r.bucket) filter (where r.up_to >= 0.5 * r.total) - 0.5)),
           make_interval(secs => power(1.05::double precision, min(r.bucket) filter (where r.up_to >= 0.95 * r.total) - 0.5))
    from ranked r
    group by r.day
    order by r.day nulls last;
end $$;

comment on function lakequeue.response_history(date, date, text[], text[]) is
  'Percentiles of the response time by day and over all, under one filter.';
