-- Changes the priority of one task; see set_priorities.
--
-- task: its id. priority: 0 to 9. reason: why. actor: who, as the web process names them.
-- Returns what was done, in words.
-- Errors: LQ428 not READ COMMITTED; LQ404 unknown task; LQ400 no such priority; LQ403 not permitted. Locks: the task's
--   row, then its model calls.
create or replace function lakequeue.set_priority(
  task bigint, priority integer, reason text default null, actor text default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
  return (select _one_task(task, o.outcome, o.detail) from set_priorities(array[task], priority, reason, actor) o);
end $$;

comment on function lakequeue.set_priority(bigint, integer, text, text) is
  'Changes the priority of one task; see set_priorities.';
