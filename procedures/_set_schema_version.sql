-- Notes the number of the newest migration; called by `lakequeue migrate` when everything is installed.
create or replace function lakequeue._set_schema_version(version integer)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  update installation i set schema_version = version where i.schema_version is distinct from version;
end $$;

comment on function lakequeue._set_schema_version(integer) is 'Notes the number of the newest migration.';
