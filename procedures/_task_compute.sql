-- What billing has told of the compute of tasks, a row per task and currency; nothing of a task that has no price at all.
--
-- tasks: ids.
-- Returns list_cost, the sum over all runs, SKUs and days. priced_runs: how many of its runs are billed, null where an
--   amount of any of them has no price yet: a task is billed in full where this equals the number of its job runs.
create or replace function lakequeue._task_compute(tasks bigint[])
returns table (task_id bigint, currency text, list_cost numeric, priced_runs bigint)
language sql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
  select u.task_id, u.currency, sum(u.list_cost), min(u.runs)
  from (
    select n.task_id, n.currency, n.list_cost,
           case when bool_and(n.currency is not null) over task then max(n.run) over task end as runs
    from (
      select c.task_id, c.currency, c.list_cost, dense_rank() over (partition by c.task_id order by c.attempt_id) as run
      from compute_costs c
      where c.task_id = any(tasks)) n
    window task as (partition by n.task_id)) u
  where u.currency is not null
  group by u.task_id, u.currency
$$;

comment on function lakequeue._task_compute(bigint[]) is 'What billing has told of the compute of tasks, by task and currency.';
