-- Moves what billing has told of a task along with it: out of the group (status, day) it stood in, into the one it stands in
-- now. _claim does so for the tasks that it claims again.
--
-- before, after: the task's row before and after, whose lock the caller holds. runs_before, runs_after: how many job runs it
-- has before and after, which decides whether a finished one is billed in full.
create or replace function lakequeue._move_compute(
  before lakequeue.tasks, after lakequeue.tasks, runs_before numeric, runs_after numeric)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  insert into compute_deltas (agent_id, customer, status, day, currency, tasks, priced, list_cost)
  select after.agent_id, after.customer, s.status, s.day, c.currency, s.sign,
         case when s.day is not null and c.billed_runs = s.runs and not c.unpriced then s.sign else 0 end, s.sign * c.list_cost
  from _task_compute(array[after.id]) c
  cross join (values (before.status, _day(before.finished_at), runs_before, -1), (after.status, _day(after.finished_at), runs_after, 1))
    s(status, day, runs, sign);
end $$;

comment on function lakequeue._move_compute(lakequeue.tasks, lakequeue.tasks, numeric, numeric) is
  'Moves what billing has told of a task along with it.';
