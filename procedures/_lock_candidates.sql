-- Locks the next claimable tasks of an agent in rule 2's order, skipping what somebody else has locked.
--
-- agent_id: the agent. how_many: most tasks. Returns their ids, in that order.
-- Locks: the tasks returned.
create or replace function lakequeue._lock_candidates(agent_id integer, how_many integer)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_looked integer := how_many + 16;  -- further than asked, past what others have locked
  v_ids bigint[];
begin
  loop
    v_ids := array(
      select t.id
      from tasks t
      where t.id = any(array(select c.id from _candidates(_lock_candidates.agent_id, v_looked) c))
        and t.status::text = 'enqueued' and t.retry_at is null  -- as text: else the planner may read all of tasks_claimable
      order by t.priority desc, t.created_at, t.id
      limit how_many
      for no key update skip locked);
    exit when cardinality(v_ids) >= how_many;
    exit when v_looked > (select count(*) from _candidates(_lock_candidates.agent_id, v_looked));  -- these are all
    v_looked := v_looked * 8;
  end loop;
  return v_ids;
end $$;

comment on function lakequeue._lock_candidates(integer, integer) is
  'Locks the next claimable tasks of an agent in rule 2''s order.';
