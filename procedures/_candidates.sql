-- The next claimable tasks of an agent in rule 2's order. The plan is pinned to the order of the index tasks_claimable:
-- with statistics from when the queue was empty the planner would sort the whole backlog for every claim (measured:
-- 181,000 rows read for 100).
--
-- agent_id: the agent. how_many: most tasks. locked: lock them, skipping what somebody else has locked.
-- Locks: the tasks returned, if asked for.
create or replace function lakequeue._candidates(agent_id integer, how_many integer, locked boolean)
returns table (id bigint, priority smallint, created_at timestamptz, page_count integer, document_bytes bigint, passed_over_at timestamptz)
language plpgsql volatile
rows 10
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
  if locked then
    return query
      select t.id, t.priority, t.created_at, t.page_count, t.document_bytes, t.passed_over_at
      from tasks t
      where t.agent_id = _candidates.agent_id and t.status = 'enqueued' and t.retry_at is null
      order by t.priority desc, t.created_at, t.id
      limit how_many
      for no key update skip locked;
  else
    return query
      select t.id, t.priority, t.created_at, t.page_count, t.document_bytes, t.passed_over_at
      from tasks t
      where t.agent_id = _candidates.agent_id and t.status = 'enqueued' and t.retry_at is null
      order by t.priority desc, t.created_at, t.id
      limit how_many;
  end if;
end $$;

comment on function lakequeue._candidates(integer, integer, boolean) is
  'The next claimable tasks of an agent in rule 2''s order.';
