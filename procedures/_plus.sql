-- Adds two arrays of amounts (see _kinds), element by element. What is unknown (null) in one stays unknown.
create or replace function lakequeue._plus(a numeric[], b numeric[])
returns numeric[]
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return array[a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5]];
end $$;

comment on function lakequeue._plus(numeric[], numeric[]) is 'Adds two arrays of amounts, element by element.';
