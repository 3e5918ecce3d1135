-- The stretches of the index tasks_claimable in which the claimable tasks of an agent are (claim_books): lane, priorities
-- and, for a stretch of one priority that begins later than its lane, where. An older answer is a wider one, so it may be
-- read by a later statement.
create or replace function lakequeue._lanes(agent_id integer)
returns table (lane integer, highest integer, lowest integer, created_from timestamptz, id_from bigint)
language plpgsql stable
rows 5
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return query
    select s.*
    from (select k.* from claim_books k where k.agent_id = _lanes.agent_id order by k.no desc limit 1) k
    cross join lateral unnest(k.lanes, k.highest, k.lowest, k.created_from, k.id_from) s;
  if not found then
    return query select d.lane, 9, 0, null::timestamptz, null::bigint from unnest(array[-1, 0, 1]) d(lane);
  end if;
end $$;

comment on function lakequeue._lanes(integer) is
  'The stretches of the index tasks_claimable in which the claimable tasks of an agent are.';
