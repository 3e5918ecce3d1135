-- The next claimable tasks of an agent in rule 2's order, merged from the stretches that _lanes gives. The plan is pinned
-- to the order of the index tasks_claimable: with statistics from when the queue was empty the planner would sort the
-- whole backlog for every claim (measured: 181,000 rows read for 100).
--
-- agent_id: the agent. how_many: most tasks. locked: lock them, skipping what somebody else has locked (_lock_candidates).
-- Locks: the tasks returned, if asked for.
create or replace function lakequeue._candidates(agent_id integer, how_many integer, locked boolean)
returns table (id bigint, priority smallint, created_at timestamptz, page_count integer, document_bytes bigint, passed_over_at timestamptz)
language plpgsql volatile
rows 10
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  if not locked then
    return query
      select c.*
      from _lanes(_candidates.agent_id) s
      cross join lateral (
        (select t.id, t.priority, t.created_at, t.page_count, t.document_bytes, t.passed_over_at
         from tasks t
         where s.created_from is not null and t.agent_id = _candidates.agent_id and t.lane = s.lane and t.priority = s.highest
           and (t.created_at, t.id) >= (s.created_from, s.id_from) and t.status = 'enqueued' and t.retry_at is null
         order by t.created_at, t.id
         limit how_many)
        union all
        (select t.id, t.priority, t.created_at, t.page_count, t.document_bytes, t.passed_over_at
         from tasks t
         where s.created_from is null and t.agent_id = _candidates.agent_id and t.lane = s.lane
           and t.priority between s.lowest and s.highest and t.status = 'enqueued' and t.retry_at is null
         order by t.priority desc, t.created_at, t.id
         limit how_many)) c
      order by c.priority desc, c.created_at, c.id
      limit how_many;
    return;
  end if;

  return query
    select t.id, t.priority, t.created_at, t.page_count, t.document_bytes, t.passed_over_at
    from unnest(_lock_candidates(_candidates.agent_id, how_many)) l(id)
    join tasks t on t.id = l.id
    order by t.priority desc, t.created_at, t.id;
end $$;

comment on function lakequeue._candidates(integer, integer, boolean) is
  'The next claimable tasks of an agent in rule 2''s order.';
