-- Tasks and model cost by customer, agent, status and day: rollups, and what is not folded yet. Several rows of one
-- group add up; day is null for live tasks, which are always in. cost_told: of how many of the tasks a cost is known; ran,
-- priced: how many had an attempt, and a cost of each of their attempts; billable: how many are finished and ran as a job.
--
-- agent_ids, statuses: as _agent_ids and _statuses give them. customers: null for all. from_day, to_day: inclusive days of
--   finished_at in the reporting time zone, null for open.
create or replace function lakequeue._ledger(
  agent_ids integer[], statuses lakequeue.task_status[], customers text[], from_day date default null, to_day date default null)
returns table (
  customer text, agent_id integer, status lakequeue.task_status, day date, tasks bigint, llm_cost numeric, cost_told bigint,
  ran bigint, priced bigint, billable bigint)
language sql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
  -- a scan of the index for the days, one for live tasks
  select r.customer, r.agent_id, r.status, r.day, r.tasks, r.llm_cost, r.cost_told, r.ran, r.priced, r.billable
  from task_rollups r
  where r.agent_id = any(agent_ids) and r.status = any(statuses) and (customers is null or r.customer = any(customers))
    and r.day >= coalesce(_ledger.from_day, '-infinity') and r.day <= coalesce(_ledger.to_day, 'infinity')
  union all
  select r.customer, r.agent_id, r.status, r.day, r.tasks, r.llm_cost, r.cost_told, r.ran, r.priced, r.billable
  from task_rollups r
  where r.agent_id = any(agent_ids) and r.status = any(statuses) and (customers is null or r.customer = any(customers))
    and r.day is null
  union all
  select s.customer, s.agent_id, s.status, s.day, s.tasks, s.llm_cost, s.cost_told, s.ran, s.priced, s.billable
  from task_deltas d
  cross join lateral _delta_sides(d) s
  where d.id > (select _folded_to())
    and s.agent_id = any(agent_ids) and s.status = any(statuses) and (customers is null or s.customer = any(customers))
    -- a delta has columns of these names
    and (s.day is null or (s.day >= coalesce(_ledger.from_day, s.day) and s.day <= coalesce(_ledger.to_day, s.day)))
$$;

comment on function lakequeue._ledger(integer[], lakequeue.task_status[], text[], date, date) is
  'Tasks and model cost by customer, agent, status and day: rollups, and what is not folded yet.';
