-- What tasks cost, model and compute apart: sums and medians per task, by any of customer, agent, status and day (of
-- finished_at in the reporting time zone; costs follow their task). Not in it: the app, the database, the warehouse.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- by: what to tell apart: some of customer, agent, status, day; '{}' gives one total. The others are null in all rows.
-- most_tasks: of how many finished tasks, the newest ones, coverage, medians and compute are told, 1 to 100000, so that
--   it stays cheap however long the history. The sum of the model cost and the number of tasks are of all tasks under
--   the filter, from the rollups; those of live tasks too, whose day is null.
-- Returns two kinds of rows. llm, in USD, by the traces; compute, a row per currency, as billing said when it was last
--   asked (at list price, of job runs only), with currency and cost null where nothing is billed yet. A cost that is not
--   known is null, never 0.
--   tasks: under the filter. looked_at: finished tasks that ran (compute: as a job run) among the newest. priced: those
--   of them whose cost is known in full: every attempt has its cost, every run is billed and has a price (in this
--   currency). cost; median_cost: of the priced ones, of an even number the lower in the middle. as_of: the age of the
--   oldest figure that may still change (compute), or now.
-- Errors: LQ400 by or most_tasks out of range, an unknown status; LQ404 an unknown agent.
create or replace function lakequeue.cost_report(
  from_day date default null, to_day date default null, statuses text[] default null, agents text[] default null,
  customers text[] default null, by text[] default '{customer,agent,status,day}', most_tasks integer default 20000)
returns table (
  customer text, agent text, status text, day date, kind text, currency text, tasks bigint, looked_at bigint,
  priced bigint, cost numeric, median_cost numeric, as_of timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
  v_statuses task_status[] := _statuses(statuses);
  v_agent_ids integer[] := _agent_ids(agents);
begin
  if by is null or not by <@ array['customer', 'agent', 'status', 'day'] then
    raise exception using errcode = 'LQ400', message = 'by must be some of customer, agent, status, day',
      hint = 'The default is all four; ''{}'' gives one total.';
  end if;
  if most_tasks is null or most_tasks not between 1 and 100000 then
    raise exception using errcode = 'LQ400', message = 'most_tasks must be 1 to 100000', hint = 'The default is 20000.';
  end if;
  return query
    with finished as materialized (
      select f.task_id,
             row(case when 'customer' = any(by) then f.customer end, case when 'agent' = any(by) then f.agent_id end,
                 case when 'status' = any(by) then f.status end, case when 'day' = any(by) then f.day end)::text as key
      from _finished_tasks(v_agent_ids, v_statuses, from_day, to_day, customers, most_tasks) f
    ), chosen as (
      select case when 'customer' = any(by) then m.customer end as customer,
             case when 'agent' = any(by) then m.agent_id end as agent_id,
             case when 'status' = any(by) then m.status end as status, case when 'day' = any(by) then m.day end as day,
             m.tasks, m.llm_cost, m.cost_told
      from _ledger(v_agent_ids, v_statuses, customers) m
      where m.day is null
         or (m.day >= coalesce(from_day, m.day) and m.day <= coalesce(to_day, m.day))
    ), ledger as materialized (
      select c.customer, c.agent_id, c.status, c.day, row(c.customer, c.agent_id, c.status, c.day)::text as key,
             sum(c.tasks)::bigint as tasks,
             case when sum(c.cost_told) > 0 then sum(c.llm_cost) end as cost  -- what nobody has told is not 0
      from chosen c
      group by c.customer, c.agent_id, c.status, c.day
      having sum(c.tasks) <> 0 or sum(c.llm_cost) <> 0
    ), spent as materialized (
      select f.task_id, f.key, u.*
      from finished f
      cross join lateral (
        select count(*) as attempts, count(a.llm_cost) as known, sum(a.llm_cost) as cost,
               count(*) filter (where a.run_id is not null and a.job_id is not null) as runs,
               count(*) filter (where r.billed) as billed,
               min(r.asked_at) filter (where not r.settled) as unsettled_at, max(r.asked_at) as asked_at
        from task_attempts a
        left join lateral (  -- LIMIT keeps it a probe, whatever the statistics say
          select c.* from compute_runs c where c.attempt_id = a.id limit 1) r on true
        where a.task_id = f.task_id) u
    ), models as (
      select s.key, count(*) as looked_at, count(*) filter (where s.known = s.attempts) as priced,
             percentile_disc(0.5) within group (order by s.cost) filter (where s.known = s.attempts) as median
      from spent s
      where s.attempts > 0
      group by s.key
    ), runs as (
      select s.key, count(*) as looked_at, coalesce(min(s.unsettled_at), max(s.asked_at)) as as_of
      from spent s
      where s.runs > 0
      group by s.key
    ), billed as (
      select s.key, c.currency, c.cost, s.billed = s.runs and not c.unpriced as complete
      from spent s
      cross join lateral (
        select o.currency, sum(o.list_cost) as cost, bool_or(bool_or(o.currency is null)) over () as unpriced
        from compute_costs o
        where o.task_id = s.task_id
        group by o.currency) c
      where s.billed > 0 and c.currency is not null
    ), computes as (
      select b.key, b.currency, count(*) filter (where b.complete) as priced, sum(b.cost) as cost,
             percentile_disc(0.5) within group (order by b.cost) filter (where b.complete) as median
      from billed b
      group by b.key, b.currency
    ), costs as (
      select l.key, 'llm' as kind, 'USD' as currency, coalesce(m.looked_at, 0) as looked_at, coalesce(m.priced, 0) as priced,
             l.cost, m.median, v_now as as_of
      from ledger l
      left join models m on m.key = l.key
      union all
      select r.key, 'compute', c.currency, r.looked_at, coalesce(c.priced, 0), c.cost, c.median, r.as_of
      from runs r
      left join computes c on c.key = r.key
    )
    select l.customer, g.name, l.status::text, l.day, c.kind, c.currency, l.tasks, c.looked_at, c.priced, c.cost, c.median,
           c.as_of
    from costs c
    join ledger l on l.key = c.key
    left join agents g on g.id = l.agent_id
    order by l.day desc nulls first, l.customer, g.name, l.status, c.kind desc, c.currency;
end $$;

comment on function lakequeue.cost_report(date, date, text[], text[], text[], text[], integer) is
  'What tasks cost, model and compute apart, by customer, agent, status and day, with coverage and age.';
