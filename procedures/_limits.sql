-- Every limit that applies at these endpoints, with what is spent of it: the one truth that dequeue_tasks,
-- reserve_tokens and explain_throttle read. Take the endpoints' locks first.
--
-- Returns a row per limit: endpoint_id; agent_id, null for a limit of the endpoint; kind: tasks, tokens, input_tokens,
-- output_tokens or requests (the last four per minute); ceiling; used and booked, see _spending. Attempts that an agent
-- started at an endpoint it has moved away from still count against its own limits.
create or replace function lakequeue._limits(endpoints integer[])
returns table (endpoint_id integer, agent_id integer, kind text, ceiling bigint, used numeric, booked numeric)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_counted integer[];
  v_with_window boolean;
begin
  v_counted := endpoints || array(
    select distinct f.id from agents a cross join unnest(a.former_endpoint_ids) f(id)
    where a.model_endpoint_id = any(endpoints) and f.id <> all(endpoints));
  v_with_window := exists (
    select from unnest(endpoints) e(id) cross join lateral _ceilings(e.id, null) c where c.kind <> 'tasks');

  return query
    with spending as materialized (
      select s.* from _spending(v_counted, v_with_window) s
    ), limits as (
      select c.*
      from unnest(endpoints) e(id)
      cross join lateral _ceilings(e.id, null) c
    )
    select l.endpoint_id, l.agent_id, l.kind, l.ceiling, coalesce(sum(s.used), 0), coalesce(sum(s.booked), 0)
    from limits l
    left join spending s
      on s.kind = l.kind and case when l.agent_id is null then s.endpoint_id = l.endpoint_id else s.agent_id = l.agent_id end
    group by l.endpoint_id, l.agent_id, l.kind, l.ceiling;
end $$;

comment on function lakequeue._limits(integer[]) is 'Every limit that applies at these endpoints, with what is spent of it.';
