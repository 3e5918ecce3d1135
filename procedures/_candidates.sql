-- The next claimable tasks of an agent in rule 2's order, merged from the stretches that _lanes gives. Nothing is locked:
-- see _lock_candidates. It becomes a part of the statement that asks, where sorts and bitmap scans have to be off: with
-- statistics from when the queue was empty the planner would sort the whole backlog for every claim (measured: 181,000 rows
-- read for 100).
--
-- agent_id: the agent. how_many: most tasks.
create or replace function lakequeue._candidates(agent_id integer, how_many integer)
returns table (id bigint, priority smallint, created_at timestamptz, page_count integer, document_bytes bigint, passed_over_at timestamptz)
language sql stable
begin atomic
  select c.*
  from lakequeue._lanes(_candidates.agent_id) s
  cross join lateral (
    (select t.id, t.priority, t.created_at, t.page_count, t.document_bytes, t.passed_over_at
     from lakequeue.tasks t
     where s.created_from is not null and t.agent_id = _candidates.agent_id and t.lane = s.lane and t.priority = s.highest
       and (t.created_at, t.id) >= (s.created_from, s.id_from) and t.status = 'enqueued' and t.retry_at is null
     order by t.created_at, t.id
     limit how_many)
    union all
    (select t.id, t.priority, t.created_at, t.page_count, t.document_bytes, t.passed_over_at
     from lakequeue.tasks t
     where s.created_from is null and t.agent_id = _candidates.agent_id and t.lane = s.lane
       and t.priority between s.lowest and s.highest and t.status = 'enqueued' and t.retry_at is null
     order by t.priority desc, t.created_at, t.id
     limit how_many)) c
  order by c.priority desc, c.created_at, c.id
  limit how_many;
end;

comment on function lakequeue._candidates(integer, integer) is
  'The next claimable tasks of an agent in rule 2''s order.';
