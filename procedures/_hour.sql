-- The beginning of the hour that a moment belongs to, as clocks in the installation's one reporting time zone strike it,
-- so that the hours of a day add up to it in every zone.
create or replace function lakequeue._hour(at timestamptz)
returns timestamptz
language plpgsql stable strict
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return (select date_trunc('hour', at, i.time_zone) from installation i);
end $$;

comment on function lakequeue._hour(timestamptz) is 'Beginning of the hour of a moment in the reporting time zone.';
