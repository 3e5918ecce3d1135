-- Roles, schema and types are there, and no function of the owner is executable by everybody by default.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['owner', 'app', 'web', 'worker', 'agent', 'operator', 'reader'] loop
    assert to_regrole('lakequeue_' || v_role) is not null, format('role lakequeue_%s is missing', v_role);
    assert v_role = 'owner' or has_schema_privilege('lakequeue_' || v_role, 'lakequeue', 'usage'),
      format('lakequeue_%s cannot use the schema', v_role);
  end loop;
  assert to_regtype('lakequeue.task_status') is not null and to_regtype('lakequeue.attempt_status') is not null,
    'a type is missing';
  assert (select n.nspowner = 'lakequeue_owner'::regrole from pg_namespace n where n.nspname = 'lakequeue'),
    'schema lakequeue does not belong to lakequeue_owner';
  assert exists (
    select from pg_default_acl d
    where d.defaclrole = 'lakequeue_owner'::regrole and d.defaclobjtype = 'f' and d.defaclnamespace = 0),
    'functions of lakequeue_owner would be executable by everybody';
end $$;
