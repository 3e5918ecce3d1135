-- The day a moment belongs to, in the installation's one reporting time zone.
create or replace function lakequeue._day(at timestamptz)
returns date
language plpgsql stable strict
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return (select (at at time zone i.time_zone)::date from installation i);
end $$;

comment on function lakequeue._day(timestamptz) is 'The day of a moment in the reporting time zone.';
