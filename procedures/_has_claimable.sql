-- Whether an agent has a task that could be claimed: one probe of the index tasks_claimable. A function of its own,
-- since the planner turns an EXISTS into a join that reads the whole backlog when its statistics are from when the queue
-- was empty.
create or replace function lakequeue._has_claimable(agent_id integer)
returns boolean
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  perform from tasks t
  where t.agent_id = _has_claimable.agent_id and t.status = 'enqueued' and t.retry_at is null
  limit 1;
  return found;
end $$;

comment on function lakequeue._has_claimable(integer) is 'Whether an agent has a task that could be claimed.';
