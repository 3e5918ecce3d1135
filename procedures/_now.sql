-- The clock of every function. It is read after any lock wait, hence clock_timestamp(): now() and
-- statement_timestamp() would be as old as the wait. Tests replace this function in their own database.
create or replace function lakequeue._now()
returns timestamptz
language sql volatile
return clock_timestamp();

comment on function lakequeue._now() is 'The time, as every function reads it.';
