-- Whether the caller has one of these roles: its login inherits it, or it has been set (`set role`, also by a setting of
-- the login). In a SECURITY DEFINER function current_user is the owner, so it cannot tell.
--
-- roles: names of roles that exist.
create or replace function lakequeue._acts_as(variadic roles text[])
returns boolean
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_set text := current_setting('role');
  v_role text;
begin
  -- A loop of expressions: this is asked at every enqueue, and a query would cost it ten times as much.
  foreach v_role in array roles loop
    if pg_has_role(session_user, v_role::name, 'usage')
       or (v_set <> 'none' and pg_has_role(v_set::name, v_role::name, 'usage')) then
      return true;
    end if;
  end loop;
  return false;
end $$;

comment on function lakequeue._acts_as(text[]) is 'Whether the caller has one of these roles, by its login or by set role.';
