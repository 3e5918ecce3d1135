-- What tasks cost, model and compute apart: sums and medians per task, by any of customer, agent, status and day (of
-- finished_at in the reporting time zone; costs follow their task). Not in it: the app, the database, the warehouse.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- by: what to tell apart: some of customer, agent, status, day; '{}' gives one total. The others are null in all rows.
-- most_tasks: of how many finished tasks, the newest ones, medians are told, 1 to 100000, so that it stays cheap however
--   long the history; of fewer, where few are of these customers (_sample_from). All else is of all tasks under the filter, from
--   the rollups; live ones, whose day is null, are always in.
-- Returns two kinds of rows. llm, in USD, by the traces; compute, a row per currency, as billing said when it was last
--   asked (at list price, of job runs only), with currency and cost null where nothing is billed yet. A cost that is not
--   known is null, never 0.
--   tasks: under the filter, the same in each row of a group. ran: finished ones that ran (compute: as a job run). priced: those
--   of them whose cost is known in full: every attempt has its cost; every run is billed and every amount has a price, in
--   whatever currency. cost: of all, also where it is not known in full. median_cost: of the priced ones among the newest, of
--   an even number the lower in the middle; median_of: of how many. as_of: now, or (compute) when the oldest figure that may
--   still change was asked for, of the newest tasks; null where none of these was asked for.
-- Errors: LQ400 by or most_tasks out of range, an unknown status; LQ404 an unknown agent.
create or replace function lakequeue.cost_report(
  from_day date default null, to_day date default null, statuses text[] default null, agents text[] default null,
  customers text[] default null, by text[] default '{customer,agent,status,day}', most_tasks integer default 5000)
returns table (
  customer text, agent text, status text, day date, kind text, currency text, tasks bigint, ran bigint,
  priced bigint, cost numeric, median_cost numeric, median_of bigint, as_of timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_nestloop = off
set enable_indexscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
  v_statuses task_status[] := _statuses(statuses);
  v_final task_status[] := array(select s.status from unnest(v_statuses) s(status) where s.status not in ('enqueued', 'processing'));
  v_agent_ids integer[] := _agent_ids(agents);
  -- asked once instead of in every row
  v_by_customer boolean := 'customer' = any(by);
  v_by_agent boolean := 'agent' = any(by);
  v_by_status boolean := 'status' = any(by);
  v_by_day boolean := 'day' = any(by);
begin
  if by is null or not by <@ array['customer', 'agent', 'status', 'day'] then
    raise exception using errcode = 'LQ400', message = 'by must be some of customer, agent, status, day',
      hint = 'The default is all four; ''{}'' gives one total.';
  end if;
  if most_tasks is null or most_tasks not between 1 and 100000 then
    raise exception using errcode = 'LQ400', message = 'most_tasks must be 1 to 100000', hint = 'The default is 5000.';
  end if;
  return query
    with finished as materialized (
      select f.task_id, case when v_by_customer then f.customer else '' end as customer,
             case when v_by_agent then f.agent_id else 0 end as agent_id,
             case when v_by_status then f.status else 'enqueued' end as status,
             case when v_by_day then f.day else 'infinity' end as day
      from _finished_tasks(
        v_agent_ids, v_final, (_sample_from(v_agent_ids, v_final, from_day, to_day, customers, most_tasks)).day, to_day, customers,
        most_tasks) f
    ), ledger as materialized (
      -- What is not told apart is the same in all rows, and never null: so groups are found by hash.
      select l.customer, l.agent_id, l.status, l.day, sum(l.tasks)::bigint as tasks,
             case when sum(l.cost_told) > 0 then sum(l.llm_cost) end as cost,  -- what nobody has told is not 0
             coalesce(sum(l.ran) filter (where l.finished), 0)::bigint as ran,
             coalesce(sum(l.priced) filter (where l.finished), 0)::bigint as priced, sum(l.billable)::bigint as billable
      from (
        select case when v_by_customer then m.customer else '' end as customer,
               case when v_by_agent then m.agent_id else 0 end as agent_id,
               case when v_by_status then m.status else 'enqueued' end as status,
               case when v_by_day then coalesce(m.day, '-infinity') else 'infinity' end as day,
               m.tasks, m.llm_cost, m.cost_told, m.ran, m.priced, m.billable, m.day is not null as finished
        from _ledger(v_agent_ids, v_statuses, customers, from_day, to_day) m
      ) l
      group by l.customer, l.agent_id, l.status, l.day
      having sum(l.tasks) <> 0 or sum(l.llm_cost) <> 0
    ), attempts as materialized (
      -- of all tasks at once, by a bitmap, so that each page is read once; so with what follows
      select a.task_id, a.id, a.llm_cost, a.run_id is not null and a.job_id is not null as is_run
      from task_attempts a
      where a.task_id = any(array(select f.task_id from finished f))
    ), runs as materialized (
      select r.attempt_id, r.settled, r.asked_at
      from compute_runs r
      where r.attempt_id = any(array(select a.id from attempts a))
    ), used as (
      select a.task_id, count(*) as attempts, count(a.llm_cost) as known, sum(a.llm_cost) as cost,
             count(*) filter (where a.is_run) as runs,
             min(r.asked_at) filter (where not r.settled) as unsettled_at, max(r.asked_at) as asked_at
      from attempts a
      left join runs r on r.attempt_id = a.id
      group by a.task_id
    ), spent as materialized (
      select f.customer, f.agent_id, f.status, f.day, u.*
      from finished f
      join used u on u.task_id = f.task_id
    ), models as (
      select s.customer, s.agent_id, s.status, s.day, percentile_disc(0.5) within group (order by s.cost) as median,
             count(*) as median_of
      from spent s
      where s.known = s.attempts
      group by s.customer, s.agent_id, s.status, s.day
    ), computes as (
      select c.customer, c.agent_id, c.status, c.day, c.currency, sum(c.priced)::bigint as priced, sum(c.list_cost) as cost
      from (
        select case when v_by_customer then m.customer else '' end as customer,
               case when v_by_agent then m.agent_id else 0 end as agent_id,
               case when v_by_status then m.status else 'enqueued' end as status,
               case when v_by_day then coalesce(m.day, '-infinity') else 'infinity' end as day,
               m.currency, m.tasks, m.priced, m.list_cost
        from _compute_ledger(v_agent_ids, v_statuses, customers, from_day, to_day) m
      ) c
      group by c.customer, c.agent_id, c.status, c.day, c.currency
      having sum(c.tasks) > 0
    ), compute_medians as (
      select s.customer, s.agent_id, s.status, s.day, c.currency,
             percentile_disc(0.5) within group (order by c.list_cost) as median, count(*) as median_of
      from spent s
      join _task_compute(array(select b.task_id from spent b where b.asked_at is not null)) c
        on c.task_id = s.task_id and c.billed_runs = s.runs and not c.unpriced
      group by s.customer, s.agent_id, s.status, s.day, c.currency
    ), asked as (
      select s.customer, s.agent_id, s.status, s.day, coalesce(min(s.unsettled_at), max(s.asked_at)) as at
      from spent s
      group by s.customer, s.agent_id, s.status, s.day
    ), costs as (
      select l.customer, l.agent_id, l.status, l.day, l.tasks, 'llm' as kind, 'USD' as currency, l.ran, l.priced,
             l.cost, m.median, coalesce(m.median_of, 0) as median_of, v_now as as_of
      from ledger l
      left join models m using (customer, agent_id, status, day)
      union all
      select l.customer, l.agent_id, l.status, l.day, l.tasks, 'compute', c.currency, l.billable, coalesce(c.priced, 0),
             c.cost, m.median, coalesce(m.median_of, 0), a.at
      from ledger l
      left join computes c using (customer, agent_id, status, day)
      left join compute_medians m using (customer, agent_id, status, day, currency)
      left join asked a using (customer, agent_id, status, day)
      where l.billable > 0 or c.currency is not null
    )
    select case when v_by_customer then c.customer end, g.name, case when v_by_status then c.status::text end,
           case when isfinite(c.day) then c.day end, c.kind, c.currency, c.tasks, c.ran, c.priced, c.cost, c.median,
           c.median_of, c.as_of
    from costs c
    left join agents g on g.id = c.agent_id
    order by 4 desc nulls first, 1, 2, c.status, c.kind desc, c.currency;
end $$;

comment on function lakequeue.cost_report(date, date, text[], text[], text[], text[], integer) is
  'What tasks cost, model and compute apart, by customer, agent, status and day, with coverage and age.';
