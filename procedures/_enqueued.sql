-- How many tasks of an agent are enqueued, those that wait for a retry included: from rollups and unfolded deltas, not
-- by counting them.
create or replace function lakequeue._enqueued(agent integer)
returns bigint
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
begin
  return (
    select coalesce(sum(e.tasks), 0)
    from (
      select r.tasks from task_rollups r where r.agent_id = agent and r.status = 'enqueued'
      union all
      select s.tasks from task_deltas d cross join lateral _delta_sides(d) s
      where d.id > (select _folded_to()) and s.agent_id = agent and s.status = 'enqueued') e);
end $$;

comment on function lakequeue._enqueued(integer) is 'How many tasks of an agent are enqueued, from the ledger.';
