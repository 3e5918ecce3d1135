-- Number of the newest migration that this database has. Programs compare it with their own at every heartbeat.
create or replace function lakequeue.schema_version()
returns integer
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return (select i.schema_version from installation i);
end $$;

comment on function lakequeue.schema_version() is 'Number of the newest migration of this database.';
