-- How fast each agent works off what waits: finished in the last hour, how many of these failed, and how long the queue
-- lasts at that pace.
--
-- agents: names, null for all.
-- Returns a row per agent: completed_last_hour, failed_last_hour, both counted to 10,000; drains_in: what is enqueued at
--   the pace of the last hour, null where nothing finished in it or the agent is paused.
-- Errors: LQ404 an unknown agent.
create or replace function lakequeue.agent_pace(agents text[] default null)
returns table (agent text, completed_last_hour bigint, failed_last_hour bigint, drains_in interval)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_since timestamptz := _now() - interval '1 hour';
  v_agent_ids integer[] := _agent_ids(agents);
begin
  return query
    select g.name, c.tasks, f.tasks,
           case when g.paused_at is null and c.tasks + f.tasks > 0
                then _enqueued(g.id) * interval '1 hour' / (c.tasks + f.tasks) end
    from agents g
    cross join lateral (
      select count(*) as tasks
      from (select from tasks t
            where t.agent_id = g.id and t.status = 'completed' and t.finished_at > v_since limit 10000) m) c
    cross join lateral (
      select count(*) as tasks
      from (select from tasks t
            where t.agent_id = g.id and t.status = 'failed' and t.finished_at > v_since limit 10000) m) f
    where g.id = any(v_agent_ids)
    order by g.name;
end $$;

comment on function lakequeue.agent_pace(text[]) is
  'Finished and failed in the last hour by agent, and how long the queue lasts at that pace.';
