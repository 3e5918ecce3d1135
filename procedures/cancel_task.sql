-- Cancels one task; see cancel_tasks.
--
-- task: its id. reason: why. actor: who, as the web process names them.
-- Returns what was done, in words.
-- Errors: LQ428 not READ COMMITTED; LQ404 unknown task; LQ403 not permitted. Locks: the task's row.
create or replace function lakequeue.cancel_task(task bigint, reason text default null, actor text default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
  return (select _one_task(task, o.outcome, o.detail) from cancel_tasks(array[task], reason, actor) o);
end $$;

comment on function lakequeue.cancel_task(bigint, text, text) is 'Cancels one task; see cancel_tasks.';
