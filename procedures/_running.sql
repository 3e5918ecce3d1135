-- The attempts at these endpoints whose runs are not known to have ended, from the place on that running_books says. In
-- one snapshot, the caller's.
create or replace function lakequeue._running(endpoints integer[])
returns setof lakequeue.task_attempts
language plpgsql stable
rows 100
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return query
    select a.*
    from (select distinct u.id from unnest(endpoints) u(id)) e
    left join lateral (
      select k.place_from from running_books k where k.endpoint_id = e.id order by k.no desc limit 1) b on true
    cross join lateral (
      select r.*
      from task_attempts r
      where r.endpoint_id = e.id and r.run_ended_at is null and r.place >= coalesce(b.place_from, 0)
      offset 0) a;  -- or the planner would read them all and merge
end $$;

comment on function lakequeue._running(integer[]) is
  'The attempts at these endpoints whose runs are not known to have ended.';
