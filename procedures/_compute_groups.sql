-- The compute cost of these tasks by the groups of compute_rollups, as they stand now.
--
-- tasks: ids; who writes down what this tells holds their rows' locks, so that none moves or is billed meanwhile.
-- Returns a row per group and currency; see compute_rollups.
create or replace function lakequeue._compute_groups(tasks bigint[])
returns table (
  agent_id integer, customer text, status lakequeue.task_status, day date, currency text, tasks bigint, priced bigint,
  list_cost numeric)
language sql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
  select t.agent_id, t.customer, t.status, _day(t.finished_at), c.currency, count(*),
         count(*) filter (where t.finished_at is not null and not c.unpriced and c.billed_runs = (
           select count(*) from task_attempts a where a.task_id = t.id and _is_job_run(a))),
         sum(c.list_cost)
  from _task_compute(_compute_groups.tasks) c
  join tasks t on t.id = c.task_id
  where t.id = any(_compute_groups.tasks)
  group by 1, 2, 3, 4, 5
$$;

comment on function lakequeue._compute_groups(bigint[]) is 'The compute cost of these tasks by the groups of compute_rollups.';
