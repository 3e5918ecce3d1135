-- Whether an agent has a task that could be claimed.
create or replace function lakequeue._has_claimable(agent_id integer)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  perform from _candidates(_has_claimable.agent_id, 1, false);
  return found;
end $$;

comment on function lakequeue._has_claimable(integer) is 'Whether an agent has a task that could be claimed.';
