-- The attempts at these endpoints whose runs are not known to have ended, from the places on that running_books says: those
-- that others have overtaken stand apart, from 2^62 on (_note_running). In one snapshot, the caller's. endpoints: ids.
create or replace function lakequeue._running(endpoints integer[])
returns setof lakequeue.task_attempts
language plpgsql stable
rows 100
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
begin
  return query
    select a.*
    from (select distinct u.id from unnest(endpoints) u(id)) e
    left join lateral (
      select k.place_from, k.overtaken_from from running_books k where k.endpoint_id = e.id order by k.no desc limit 1) b on true
    cross join lateral (
      values (coalesce(b.place_from, 0), (1::bigint << 62) - 1), (b.overtaken_from, 9223372036854775807)) p(low, high)  -- null: none was moved
    cross join lateral (
      select r.*
      from task_attempts r
      where r.endpoint_id = e.id and r.run_ended_at is null and r.place between p.low and p.high
      offset 0) a;  -- or the planner would read them all and merge
end $$;

comment on function lakequeue._running(integer[]) is
  'The attempts at these endpoints whose runs are not known to have ended.';
