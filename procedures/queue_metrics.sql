-- Tasks by status, with their usage and response time: from rollups and unfolded deltas, exact at every
-- instant without a look at history or at tasks.
--
-- from_day, to_day: inclusive days of finished_at in the reporting time zone, null for open; live tasks are "now" and
--   always in. statuses, agents, customers: null for all.
-- Returns a row per status asked for, also where there is nothing. Tokens and USD are of all attempts of these tasks, null
--   where nobody has told any (a model without a price is not free), 0 where somebody has told 0. ran: finished tasks that
--   had an attempt; priced: those of them whose cost is known in full, so that llm_cost is "priced of ran".
--   median_response is from created_at to finished_at of completed tasks (of an even number the lower of the two in the
--   middle), right within 2.5 %, null where there are none.
-- Errors: LQ400 an unknown status; LQ404 an unknown agent.
create or replace function lakequeue.queue_metrics(
  from_day date default null, to_day date default null, statuses text[] default null, agents text[] default null,
  customers text[] default null)
returns table (
  status text, tasks bigint, input_tokens bigint, output_tokens bigint, cached_tokens bigint, llm_cost numeric,
  ran bigint, priced bigint, median_response interval)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_statuses task_status[] := _statuses(statuses);
  v_agent_ids integer[] := _agent_ids(agents);
begin
  return query
    with groups as materialized (
      select r.status, r.day, r.tasks, r.input_tokens, r.output_tokens, r.cached_tokens, r.llm_cost,
             r.ran, r.priced, r.input_told, r.output_told, r.cached_told, r.cost_told
      from task_rollups r
      where r.agent_id = any(v_agent_ids) and r.status = any(v_statuses)
        and (customers is null or r.customer = any(customers))
      union all
      select s.status, s.day, s.tasks, s.input_tokens, s.output_tokens, s.cached_tokens, s.llm_cost,
             s.ran, s.priced, s.input_told, s.output_told, s.cached_told, s.cost_told
      from task_deltas d
      cross join lateral _delta_sides(d) s
      where d.id > (select _folded_to()) and s.agent_id = any(v_agent_ids) and s.status = any(v_statuses)
        and (customers is null or s.customer = any(customers))
    ), in_range as (
      select g.*
      from groups g
      where g.day is null
         or (g.day >= coalesce(from_day, g.day) and g.day <= coalesce(to_day, g.day))
    ), totals as (
      select g.status, sum(g.tasks) as tasks,
             case when sum(g.input_told) > 0 then sum(g.input_tokens) end as input_tokens,
             case when sum(g.output_told) > 0 then sum(g.output_tokens) end as output_tokens,
             case when sum(g.cached_told) > 0 then sum(g.cached_tokens) end as cached_tokens,
             case when sum(g.cost_told) > 0 then sum(g.llm_cost) end as llm_cost,
             sum(g.ran) filter (where g.day is not null) as ran, sum(g.priced) filter (where g.day is not null) as priced
      from in_range g
      group by g.status
    ), response_times as (
      select r.bucket, r.tasks from _responses(v_agent_ids, customers, from_day, to_day) r where 'completed' = any(v_statuses)
    ), ranked as (
      select r.bucket, sum(r.tasks) over (order by r.bucket) as up_to, sum(r.tasks) over () as total
      from response_times r
    ), median as (
      select make_interval(secs => power(1.05::double precision, min(r.bucket) - 0.5)) as response
      from ranked r
      where r.total > 0 and r.up_to >= r.total / 2.0
    )
    select s.status::text,
           coalesce(t.tasks, 0)::bigint,
           t.input_tokens::bigint, t.output_tokens::bigint, t.cached_tokens::bigint, t.llm_cost,
           coalesce(t.ran, 0)::bigint, coalesce(t.priced, 0)::bigint,
           case when s.status = 'completed' then m.response end
    from unnest(v_statuses) s(status)
    left join totals t on t.status = s.status
    cross join median m
    order by s.status;
end $$;

comment on function lakequeue.queue_metrics(date, date, text[], text[], text[]) is
  'Tasks by status with tokens, cost and median response time, under one filter.';
