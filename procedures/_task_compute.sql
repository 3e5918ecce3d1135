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
  with told as (
    select c.task_id, c.attempt_id, c.currency, sum(c.list_cost) as list_cost
    from compute_costs c
    where c.task_id = any(tasks)
    group by c.task_id, c.attempt_id, c.currency
  ), runs as (
    select t.task_id, count(distinct t.attempt_id) as billed, bool_or(t.currency is null) as unpriced from told t group by t.task_id
  )
  select t.task_id, t.currency, sum(t.list_cost), min(r.billed) filter (where not r.unpriced)
  from told t
  join runs r on r.task_id = t.task_id
  where t.currency is not null
  group by t.task_id, t.currency
$$;

comment on function lakequeue._task_compute(bigint[]) is 'What billing has told of the compute of tasks, by task and currency.';
