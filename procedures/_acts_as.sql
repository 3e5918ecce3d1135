-- Whether the caller has one of these roles: its login inherits it, or it has been set (`set role`, also by a setting of
-- the login). In a SECURITY DEFINER function current_user is the owner, so it cannot tell.
--
-- roles: names of roles that exist.
create or replace function lakequeue._acts_as(variadic roles text[])
returns boolean
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return exists (
    select from unnest(array[session_user, nullif(current_setting('role'), 'none')]) u(caller), unnest(roles) r(role)
    where pg_has_role(u.caller::name, r.role::name, 'usage'));
end $$;

comment on function lakequeue._acts_as(text[]) is 'Whether the caller has one of these roles, by its login or by set role.';
