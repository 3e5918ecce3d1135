-- By how much reports have raised what is counted at these endpoints, summed per endpoint and agent: of attempts that run
-- or ended within 60 seconds, and of calls that ended within them. Usually of none. Nothing has raised more than it counts
-- now, and it leaves the window together with what it raised: so the books may add the difference to what they last wrote.
--
-- endpoints: ids, each once. at: the end of the window, null for now.
create or replace function lakequeue._raised(endpoints integer[], at timestamptz default null)
returns table (endpoint_id integer, agent_id integer, raised numeric[])
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
declare
  v_window_start timestamptz := coalesce(at, _now()) - interval '60 seconds';
begin
  return query
    select r.endpoint_id, r.agent_id, array[0, sum(r.raised[2]), sum(r.raised[3]), sum(r.raised[4]), 0]
    from (
      select a.endpoint_id, a.agent_id,
             array[0, least(a.raised[2], c.counted[2]), least(a.raised[3], c.counted[3]), least(a.raised[4], c.counted[4]), 0]
               as raised
      from (
        -- those that run: from place_from on, behind which the overtaken stand as well
        select r.*
        from unnest(endpoints) e(id)
        left join lateral (
          select k.place_from from running_books k where k.endpoint_id = e.id order by k.no desc limit 1) b on true
        cross join lateral (
          select s.*
          from task_attempts s
          where s.endpoint_id = e.id and s.raised is not null and s.run_ended_at is null and s.place >= coalesce(b.place_from, 0)
          union all
          select s.*
          from task_attempts s
          where s.endpoint_id = e.id and s.raised is not null and s.run_ended_at > v_window_start) r
      ) a
      join agents g on g.id = a.agent_id
      cross join lateral (select _counted(a, g.output_share) as counted) c
      where not a.reserves_calls
      union all
      select c.endpoint_id, c.agent_id, c.raised
      from model_calls c
      where c.endpoint_id = any(endpoints) and c.raised is not null and c.ended_at > v_window_start
    ) r
    group by r.endpoint_id, r.agent_id;
end $$;

comment on function lakequeue._raised(integer[], timestamptz) is
  'By how much reports have raised what is counted at these endpoints.';
