-- What tasks cost, model and compute apart: sums and medians per task, by any of customer, agent, status and day (of
-- finished_at in the reporting time zone; costs follow their task). Not in it: the app, the database, the warehouse.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- by: what to tell apart: some of customer, agent, status, day; '{}' gives one total. The others are null in all rows.
-- most_tasks: of how many completed and failed tasks, the newest ones, medians are told, 1 to 100000, so that it stays cheap
--   however long the history; of fewer, where few are of these customers (_sample_from). Of cancelled ones a fifth as many: most
--   of them never ran, and thousands cancelled at once would displace all others. All else is of all tasks under the filter,
--   from the rollups; live ones, whose day is null, are always in.
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
set enable_mergejoin = off
set enable_indexscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
  v_statuses task_status[] := _statuses(statuses);
  v_final task_status[] := array(select s.status from unnest(v_statuses) s(status) where s.status not in ('enqueued', 'processing'));
  v_agent_ids integer[] := _agent_ids(agents);
  v_most_cancelled integer := ceil(most_tasks / 5.0);
  -- asked once instead of in every row
  v_by_customer boolean := 'customer' = any(by);
  v_by_agent boolean := 'agent' = any(by);
  v_by_status boolean := 'status' = any(by);
  v_by_day boolean := 'day' = any(by);
  v_by_all boolean := v_by_customer and v_by_agent and v_by_status and v_by_day;
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
      -- What is not told apart is the same in all rows, and never null: so groups are found by hash. Live ones have a day behind all.
      select f.task_id, case when v_by_customer then f.customer else '' end as customer,
             case when v_by_agent then f.agent_id else 0 end as agent_id,
             case when v_by_status then f.status else 'enqueued' end as status,
             case when v_by_day then f.day else '-infinity' end as day
      from (values (array_remove(v_final, 'cancelled'), most_tasks),
                   (array(select s.status from unnest(v_final) s(status) where s.status = 'cancelled'), v_most_cancelled)) s(statuses, most)
      cross join lateral _finished_tasks(
        v_agent_ids, s.statuses, (_sample_from(v_agent_ids, s.statuses, from_day, to_day, customers, s.most)).day, to_day, customers,
        s.most) f
    ), sampled as materialized (
      -- the groups that have a sample: few, and known by a number from here on
      select row_number() over () as no, f.customer, f.agent_id, f.status, f.day
      from finished f
      group by f.customer, f.agent_id, f.status, f.day
    ), numbered as (
      select f.task_id, s.no
      from finished f
      join sampled s using (customer, agent_id, status, day)
    ), attempts as materialized (
      -- of all tasks at once, by a bitmap, so that each page is read once; so with what follows
      select a.task_id, a.id, a.llm_cost, _is_job_run(a) as is_run
      from task_attempts a
      where a.task_id = any(array(select f.task_id from finished f))
    ), runs as (
      select r.attempt_id, r.billed, r.settled, r.asked_at
      from compute_runs r
      where r.attempt_id = any(array(select a.id from attempts a))
    ), spent as materialized (
      select u.no, u.task_id, count(*) as attempts, count(u.llm_cost) as known, sum(u.llm_cost) as cost,
             count(*) filter (where u.is_run) as runs, count(*) filter (where u.billed) as billed_runs,
             min(u.asked_at) filter (where not u.settled) as unsettled_at, max(u.asked_at) as asked_at
      from (  -- in order, which is sooner done than a table of as many groups as there are tasks
        select n.no, a.task_id, a.llm_cost, a.is_run, r.billed, r.settled, r.asked_at
        from attempts a
        join numbered n on n.task_id = a.task_id
        left join runs r on r.attempt_id = a.id
        order by a.task_id, n.no) u
      group by u.task_id, u.no
    ), models as (
      select s.no, percentile_disc(0.5) within group (order by s.cost) filter (where s.known = s.attempts) as median,
             count(*) filter (where s.known = s.attempts) as median_of, coalesce(min(s.unsettled_at), max(s.asked_at)) as asked_at
      from spent s
      group by s.no
    ), bills as materialized (
      -- an amount without a price has no currency
      select c.task_id, c.currency, sum(c.list_cost) as cost
      from compute_costs c
      where c.task_id = any(array(select f.task_id from finished f))
      group by c.task_id, c.currency
    ), compute_medians as (
      select s.no, b.currency, percentile_disc(0.5) within group (order by b.cost) as median, count(*) as median_of
      from spent s
      join bills b on b.task_id = s.task_id and s.billed_runs = s.runs
      where b.task_id not in (select u.task_id from bills u where u.currency is null)
      group by s.no, b.currency
    ), folded as materialized (
      -- Of each day before this one the rollups have a row for each group that is asked for: nothing is to be added up.
      select case when v_by_all then coalesce(
               least(
                 (select min(least(d.from_day, d.to_day)) from task_deltas d where d.id > (select _folded_to())),
                 (select min(d.day) from compute_deltas d)),
               'infinity') else '-infinity' end as before
    ), groups as (
      select r.customer, r.agent_id, r.status, r.day, r.tasks, case when r.cost_told > 0 then r.llm_cost end as cost, r.ran, r.priced,
             r.billable
      from task_rollups r
      where r.agent_id = any(v_agent_ids) and r.status = any(v_statuses) and (customers is null or r.customer = any(customers))
        and r.day >= coalesce(from_day, '-infinity') and r.day <= coalesce(to_day, 'infinity')
        and r.day < (select f.before from folded f) and (r.tasks <> 0 or r.llm_cost <> 0)
      union all
      select l.customer, l.agent_id, l.status, l.day, sum(l.tasks)::bigint,
             case when sum(l.cost_told) > 0 then sum(l.llm_cost) end,  -- what nobody has told is not 0
             coalesce(sum(l.ran) filter (where l.finished), 0)::bigint,
             coalesce(sum(l.priced) filter (where l.finished), 0)::bigint, sum(l.billable)::bigint
      from (
        select case when v_by_customer then m.customer else '' end as customer,
               case when v_by_agent then m.agent_id else 0 end as agent_id,
               case when v_by_status then m.status else 'enqueued' end as status,
               case when v_by_day then coalesce(m.day, 'infinity') else '-infinity' end as day,
               m.tasks, m.llm_cost, m.cost_told, m.ran, m.priced, m.billable, m.day is not null as finished
        from _ledger(v_agent_ids, v_statuses, customers, greatest(from_day, (select f.before from folded f)), to_day) m
      ) l
      group by l.customer, l.agent_id, l.status, l.day
      having sum(l.tasks) <> 0 or sum(l.llm_cost) <> 0
    ), ledger as materialized (
      -- put into order once, so that the rows of the answer are by a number, and compute comes after the model
      select 2 * row_number() over (order by g.day desc, g.customer, a.name, g.status) as place, a.name as agent, g.*, n.no, n.median,
             coalesce(n.median_of, 0) as median_of, n.asked_at
      from groups g
      left join agents a on a.id = g.agent_id
      left join (select s.customer, s.agent_id, s.status, s.day, m.* from sampled s join models m on m.no = s.no) n
        using (customer, agent_id, status, day)
    ), computes as (
      select r.customer, r.agent_id, r.status, r.day, r.currency, r.priced, r.list_cost as cost
      from compute_rollups r
      where r.agent_id = any(v_agent_ids) and r.status = any(v_statuses) and (customers is null or r.customer = any(customers))
        and r.day >= coalesce(from_day, '-infinity') and r.day <= coalesce(to_day, 'infinity')
        and r.day < (select f.before from folded f) and r.tasks > 0
      union all
      select c.customer, c.agent_id, c.status, c.day, c.currency, sum(c.priced)::bigint, sum(c.list_cost)
      from (
        select case when v_by_customer then m.customer else '' end as customer,
               case when v_by_agent then m.agent_id else 0 end as agent_id,
               case when v_by_status then m.status else 'enqueued' end as status,
               case when v_by_day then coalesce(m.day, 'infinity') else '-infinity' end as day,
               m.currency, m.tasks, m.priced, m.list_cost
        from _compute_ledger(v_agent_ids, v_statuses, customers, greatest(from_day, (select f.before from folded f)), to_day) m
      ) c
      group by c.customer, c.agent_id, c.status, c.day, c.currency
      having sum(c.tasks) > 0
    ), costs as (
      select l.place, l.customer, l.agent, l.status, l.day, l.tasks, 'llm' as kind, 'USD' as currency, l.ran, l.priced,
             l.cost, l.median, l.median_of, v_now as as_of
      from ledger l
      union all
      select l.place + 1, l.customer, l.agent, l.status, l.day, l.tasks, 'compute', c.currency, l.billable, coalesce(c.priced, 0),
             c.cost, m.median, coalesce(m.median_of, 0), l.asked_at
      from ledger l
      left join computes c using (customer, agent_id, status, day)
      left join compute_medians m on m.no = l.no and m.currency = c.currency
      where l.billable > 0 or c.currency is not null
    )
    select case when v_by_customer then c.customer end, c.agent, case when v_by_status then c.status::text end,
           case when isfinite(c.day) then c.day end, c.kind, c.currency, c.tasks, c.ran, c.priced, c.cost, c.median,
           c.median_of, c.as_of
    from costs c
    order by c.place, c.currency;
end $$;

comment on function lakequeue.cost_report(date, date, text[], text[], text[], text[], integer) is
  'What tasks cost, model and compute apart, by customer, agent, status and day, with coverage and age.';
