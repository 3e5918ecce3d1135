-- The stretches of the index tasks_claimable in which the claimable tasks of an agent are (claim_books): lane, priorities
-- and, for a stretch of one priority that begins later than its lane, where. An older answer is a wider one, so it may be
-- read by a later statement. agent_id: the agent.
create or replace function lakequeue._lanes(agent_id integer)
returns table (lane integer, highest integer, lowest integer, created_from timestamptz, id_from bigint)
language sql stable
begin atomic
  select s.lane, s.highest, s.lowest, s.created_from, s.id_from
  from (select) as always  -- also without a book; unnest fills up the begins with null
  left join lateral (
    select k.lanes, k.highest, k.lowest, k.created_from, k.id_from
    from lakequeue.claim_books k
    where k.agent_id = _lanes.agent_id
    order by k.no desc
    limit 1) k on true
  cross join lateral unnest(
    coalesce(k.lanes, array[-1, 0, 1]), coalesce(k.highest, array[9, 9, 9]), coalesce(k.lowest, array[0, 0, 0]),
    k.created_from, k.id_from) s(lane, highest, lowest, created_from, id_from);
end;

comment on function lakequeue._lanes(integer) is
  'The stretches of the index tasks_claimable in which the claimable tasks of an agent are.';
