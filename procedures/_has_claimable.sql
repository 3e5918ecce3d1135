-- Whether an agent has a task that could be claimed: a probe for each of the stretches that _candidates reads.
create or replace function lakequeue._has_claimable(agent_id integer)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
begin
  perform from _lanes(_has_claimable.agent_id) s
  where case when s.created_from is null
    then exists (
      select from tasks t
      where t.agent_id = _has_claimable.agent_id and t.lane = s.lane and t.priority between s.lowest and s.highest
        and t.status = 'enqueued' and t.retry_at is null)
    else exists (
      select from tasks t
      where t.agent_id = _has_claimable.agent_id and t.lane = s.lane and t.priority = s.highest
        and (t.created_at, t.id) >= (s.created_from, s.id_from) and t.status = 'enqueued' and t.retry_at is null) end
  limit 1;
  return found;
end $$;

comment on function lakequeue._has_claimable(integer) is 'Whether an agent has a task that could be claimed.';
