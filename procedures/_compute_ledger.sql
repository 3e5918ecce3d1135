-- Compute cost by customer, agent, status, day and currency: rollups, and what is not folded yet. Several rows of one group
-- add up; day is null for live tasks, which are always in. See compute_rollups for what they count.
--
-- agent_ids, statuses: as _agent_ids and _statuses give them. customers: null for all. from_day, to_day: inclusive days of
--   finished_at in the reporting time zone, null for open.
create or replace function lakequeue._compute_ledger(
  agent_ids integer[], statuses lakequeue.task_status[], customers text[], from_day date default null, to_day date default null)
returns table (
  customer text, agent_id integer, status lakequeue.task_status, day date, currency text, tasks bigint, priced bigint,
  list_cost numeric)
language sql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
  -- a scan of the index for the days, one for live tasks
  select r.customer, r.agent_id, r.status, r.day, r.currency, r.tasks, r.priced, r.list_cost
  from compute_rollups r
  where r.agent_id = any(agent_ids) and r.status = any(statuses) and (customers is null or r.customer = any(customers))
    and r.day >= coalesce(_compute_ledger.from_day, '-infinity') and r.day <= coalesce(_compute_ledger.to_day, 'infinity')
  union all
  select r.customer, r.agent_id, r.status, r.day, r.currency, r.tasks, r.priced, r.list_cost
  from compute_rollups r
  where r.agent_id = any(agent_ids) and r.status = any(statuses) and (customers is null or r.customer = any(customers))
    and r.day is null
  union all
  select d.customer, d.agent_id, d.status, d.day, d.currency, d.tasks, d.priced, d.list_cost
  from compute_deltas d  -- few: a mark, as task_deltas have one, would save nothing
  where d.agent_id = any(agent_ids) and d.status = any(statuses) and (customers is null or d.customer = any(customers))
    and (d.day is null
         or (d.day >= coalesce(_compute_ledger.from_day, d.day) and d.day <= coalesce(_compute_ledger.to_day, d.day)))
$$;

comment on function lakequeue._compute_ledger(integer[], lakequeue.task_status[], text[], date, date) is
  'Compute cost by customer, agent, status, day and currency: rollups, and what is not folded yet.';
