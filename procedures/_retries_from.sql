-- From which time on retries wait: those that were due before are done, so that looks for them pass few entries of these,
-- which a snapshot held by somebody else keeps. sweep_leases moves it; in one snapshot, the caller's. What was
-- committed more than ten seconds after its time may be found a few minutes late.
create or replace function lakequeue._retries_from()
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return coalesce((select k.retries_from from sweep_books k order by k.no desc limit 1), '-infinity');
end $$;

comment on function lakequeue._retries_from() is 'From which time on retries wait.';
