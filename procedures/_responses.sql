-- Completed tasks by the bucket of their response time, under a filter: from the coarsest histograms that cover it (whole
-- months; all agents, all customers together), and what is not folded yet. Every percentile is made of this.
--
-- agent_ids: as _agent_ids gives them. customers: null for all. from_day, to_day: inclusive days of finished_at in the
--   reporting time zone, null for open.
-- step: hour (which are kept for 35 days) or day: each of them apart; null: all of them together.
-- Returns rows to be added up by at and bucket (what is not folded yet may take away); at: when the hour begins, or the
--   midnight of the day in UTC, since there may be 50,000 rows, too many to ask the reporting time zone for each; null
--   without a step.
create or replace function lakequeue._responses(
  agent_ids integer[], customers text[], from_day date, to_day date, step text default null)
returns table (at timestamptz, bucket smallint, tasks bigint)
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
declare
  v_agent_ids integer[] := case when cardinality(agent_ids) = (select count(*) from agents) then '{0}' else agent_ids end;
  v_customers text[] := case when customers is null then array[null::text] else array(
    select distinct u.customer from unnest(customers) u(customer) where u.customer is not null) end;
  v_zone text := (select i.time_zone from installation i);
  v_first date := coalesce(_in_calendar(from_day), '-infinity');
  v_end date := coalesce(_in_calendar(to_day) + 1, 'infinity');
  -- the months from the first of these up to the second are whole
  v_month date := date_trunc('month', (v_first - 1)::timestamp) + interval '1 month';
  v_last_month date := date_trunc('month', v_end::timestamp);
begin
  if step is not null or v_month >= v_last_month then
    v_month := v_end;
    v_last_month := v_end;
  end if;
  return query
    select case when step = 'day' then to_timestamp(86400::float8 * (h.day - date '1970-01-01')) end, h.bucket, h.tasks
    from unnest(v_customers) c(customer)
    cross join (values (false, v_first, v_month), (true, v_month, v_last_month), (false, v_last_month, v_end)) r(by_month, first, until)
    cross join lateral (  -- OFFSET keeps these probes, whatever the statistics say
      select d.day, d.bucket, d.tasks
      from response_histogram d
      where d.agent_id = any(v_agent_ids) and d.customer is null and c.customer is null
        and d.by_month = r.by_month and d.day >= r.first and d.day < r.until
      union all
      select d.day, d.bucket, d.tasks
      from response_histogram d
      where d.agent_id = any(v_agent_ids) and d.customer = c.customer
        and d.by_month = r.by_month and d.day >= r.first and d.day < r.until
      offset 0) h
    where step is distinct from 'hour' and r.first < r.until
    union all
    select h.hour, h.bucket, h.tasks
    from unnest(v_customers) c(customer)
    cross join lateral (
      select d.hour, d.bucket, d.tasks
      from hourly_histogram d
      where d.agent_id = any(v_agent_ids) and d.customer is null and c.customer is null
        and d.hour >= v_first::timestamp at time zone v_zone and d.hour < v_end::timestamp at time zone v_zone
      union all
      select d.hour, d.bucket, d.tasks
      from hourly_histogram d
      where d.agent_id = any(v_agent_ids) and d.customer = c.customer
        and d.hour >= v_first::timestamp at time zone v_zone and d.hour < v_end::timestamp at time zone v_zone
      offset 0) h
    where step = 'hour'
    union all
    select case step when 'day' then to_timestamp(86400::float8 * (s.day - date '1970-01-01')) when 'hour' then s.hour end, s.bucket, s.tasks
    from task_deltas d
    cross join lateral _delta_sides(d) s
    where d.id > (select _folded_to()) and s.agent_id = any(agent_ids) and s.bucket is not null and s.day >= v_first and s.day < v_end
      and (step is distinct from 'hour' or s.hour is not null)
      and (customers is null or s.customer = any(customers));
end $$;

comment on function lakequeue._responses(integer[], text[], date, date, text) is
  'Completed tasks by the bucket of their response time, by hour, by day or in all, under a filter.';
