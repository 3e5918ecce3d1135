-- What an action on all tasks under a filter can concern: how many tasks there are of each status, and whether it is one
-- that the action can do something with. Counted from the ledger, so it is there at once; cancel_tasks and its like decide
-- about each task when they are called.
--
-- action: cancel, retry, reprocess or priority. from_day, to_day, statuses, agents, customers: the filter, as in
--   queue_metrics.
-- Returns a row per status asked for.
-- Errors: LQ400 an unknown action or status; LQ404 an unknown agent.
create or replace function lakequeue.action_scope(
  action text, from_day date default null, to_day date default null, statuses text[] default null,
  agents text[] default null, customers text[] default null)
returns table (status text, tasks bigint, concerned boolean)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_concerned task_status[] := _concerned(action);
  v_statuses task_status[] := _statuses(statuses);
  v_agent_ids integer[] := _agent_ids(agents);
begin
  return query
    with counted as (
      select l.status, sum(l.tasks) as tasks
      from _ledger(v_agent_ids, v_statuses, customers, from_day, to_day) l
      group by l.status
    )
    select s.status::text, coalesce(c.tasks, 0)::bigint, s.status = any(v_concerned)
    from unnest(v_statuses) s(status)
    left join counted c on c.status = s.status
    order by s.status;
end $$;

comment on function lakequeue.action_scope(text, date, date, text[], text[], text[]) is
  'What an action on all tasks under a filter can concern, by status.';
