-- The model calls of these endpoints that have not ended, under way or waiting, from the places on that running_books says:
-- those that others have overtaken stand apart, from 2^62 on (_note_calls). In one snapshot, the caller's. only_waiting:
-- without those under way.
create or replace function lakequeue._open_calls(endpoints integer[], only_waiting boolean default false)
returns setof lakequeue.model_calls
language plpgsql stable
rows 100
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
begin
  return query
    select c.*
    from (select distinct u.id from unnest(endpoints) u(id)) e
    left join lateral (
      select k.call_from, k.calls_overtaken_from from running_books k where k.endpoint_id = e.id order by k.no desc limit 1) b on true
    cross join lateral (
      values (coalesce(b.call_from, 0), (1::bigint << 62) - 1), (b.calls_overtaken_from, 9223372036854775807)) p(low, high)  -- null: none was moved
    cross join lateral (
      select r.*
      from model_calls r
      where r.endpoint_id = e.id and r.ended_at is null and r.place between p.low and p.high
        and (r.granted_at is null or not only_waiting)
      offset 0) c;  -- or the planner would read them all and merge
end $$;

comment on function lakequeue._open_calls(integer[], boolean) is 'The model calls of these endpoints that have not ended.';
