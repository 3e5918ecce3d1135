-- Refuses JSON that PostgreSQL stores but that those who read it cannot: a worker that met such a payload, or a page such
-- a result, would fail at every try. (Python reads about 900 levels, and neither integers of more than 4,300 digits nor
-- any beyond a double where it writes them.)
--
-- value: what is about to be stored. Returns it. Errors: LQ422.
create or replace function lakequeue._check_json(value jsonb)
returns jsonb
language plpgsql immutable strict
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if jsonb_path_exists(value, '$.**{200}') then
    raise exception using errcode = 'LQ422', message = 'this JSON is nested more than 200 levels deep',
      hint = 'Store such a structure in the volume, or as text.';
  end if;
  if jsonb_path_exists(value, 'strict $.** ? (@.type() == "number" && (@ > 1e308 || @ < -1e308))') then
    raise exception using errcode = 'LQ422', message = 'a number in this JSON is larger than 10^308',
      hint = 'Send such a number as text.';
  end if;
  return value;
end $$;

comment on function lakequeue._check_json(jsonb) is 'Refuses JSON that clients cannot read: deeper than 200 levels, numbers beyond 10^308.';
