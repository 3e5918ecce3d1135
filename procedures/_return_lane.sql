-- The lane of an agent to which a task comes back that was claimed before, or takes another place. Ask in the statement
-- that writes it to the task, which has its lock on the table by then: whoever closes a lane waits for those who had it.
-- A transaction with one snapshot for all might be told of a lane that was closed since: none comes here (_refuse_snapshot).
create or replace function lakequeue._return_lane(agent_id integer)
returns integer
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
begin
  return coalesce((select k.lane from claim_books k where k.agent_id = _return_lane.agent_id order by k.no desc limit 1), 1);
end $$;

comment on function lakequeue._return_lane(integer) is 'The lane of an agent to which a task comes back.';
