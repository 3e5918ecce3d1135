-- Whether the caller has this role: its login inherits it, or it has been set (`set role`, also by a setting of the
-- login). In a SECURITY DEFINER function current_user is the owner, so it cannot tell.
--
-- role: name of a role that exists.
create or replace function lakequeue._acts_as(role name)
returns boolean
language sql stable
return pg_has_role(session_user, role, 'usage')
  or coalesce(pg_has_role(nullif(current_setting('role'), 'none')::name, role, 'usage'), false);

comment on function lakequeue._acts_as(name) is 'Whether the caller has this role, by its login or by set role.';
