-- What billing has told of the compute of tasks, a row per task and currency; nothing of a task that has no price at all.
--
-- tasks: ids.
-- Returns list_cost, the sum over all runs, SKUs and days; billed_runs: how many of its runs are billed; unpriced: an amount
--   of any of them has no price. A task is billed in full if each of its job runs is billed, and nothing is unpriced.
create or replace function lakequeue._task_compute(tasks bigint[])
returns table (task_id bigint, currency text, list_cost numeric, billed_runs bigint, unpriced boolean)
language sql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
  select u.task_id, u.currency, sum(u.list_cost), min(u.billed_runs), bool_or(u.unpriced)
  from (
    select n.task_id, n.currency, n.list_cost, max(n.run) over task as billed_runs, bool_or(n.currency is null) over task as unpriced
    from (  -- runs are numbered, since distinct ones cannot be counted in a window
      select c.task_id, c.currency, c.list_cost, dense_rank() over (partition by c.task_id order by c.attempt_id) as run
      from compute_costs c
      where c.task_id = any(tasks)) n
    window task as (partition by n.task_id)) u
  where u.currency is not null
  group by u.task_id, u.currency
$$;

comment on function lakequeue._task_compute(bigint[]) is 'What billing has told of the compute of tasks, by task and currency.';
