-- By how much the reports of attempts have raised what they count at these endpoints (task_attempts.raised), summed per
-- endpoint and agent: of attempts that run or ended within 60 seconds. Usually of none.
create or replace function lakequeue._raised(endpoints integer[])
returns table (endpoint_id integer, agent_id integer, raised numeric[])
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return query
    select a.endpoint_id, a.agent_id,
           array[0, sum(a.raised[2]), sum(a.raised[3]), sum(a.raised[4]), sum(a.raised[5])]
    from task_attempts a
    where a.endpoint_id = any(endpoints) and a.raised is not null
      and (a.run_ended_at is null or a.run_ended_at > _now() - interval '60 seconds')
    group by a.endpoint_id, a.agent_id;
end $$;

comment on function lakequeue._raised(integer[]) is
  'By how much reports have raised what attempts count at these endpoints.';
