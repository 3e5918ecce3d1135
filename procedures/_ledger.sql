-- Tasks and model cost by customer, agent, status and day: rollups, and what is not folded yet. Several rows of one
-- group add up; day is null for live tasks. cost_told: of how many of the tasks a cost is known.
--
-- agent_ids, statuses: as _agent_ids and _statuses give them. customers: null for all.
create or replace function lakequeue._ledger(agent_ids integer[], statuses lakequeue.task_status[], customers text[])
returns table (customer text, agent_id integer, status lakequeue.task_status, day date, tasks bigint, llm_cost numeric, cost_told bigint)
language sql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
  select r.customer, r.agent_id, r.status, r.day, r.tasks, r.llm_cost, r.cost_told
  from task_rollups r
  where r.agent_id = any(agent_ids) and r.status = any(statuses) and (customers is null or r.customer = any(customers))
  union all
  select s.customer, s.agent_id, s.status, s.day, s.tasks, s.llm_cost, s.cost_told
  from task_deltas d
  cross join lateral _delta_sides(d) s
  where d.id > (select _folded_to())
    and s.agent_id = any(agent_ids) and s.status = any(statuses) and (customers is null or s.customer = any(customers))
$$;

comment on function lakequeue._ledger(integer[], lakequeue.task_status[], text[]) is
  'Tasks and model cost by customer, agent, status and day: rollups, and what is not folded yet.';
