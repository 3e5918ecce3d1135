-- The clock of every function. It is read after any lock wait, hence clock_timestamp(): now() and
-- statement_timestamp() would be as old as the wait. Tests replace this function in their own database.
create or replace function lakequeue._now()
returns timestamptz
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return clock_timestamp();
end $$;

comment on function lakequeue._now() is 'The time, as every function reads it.';
