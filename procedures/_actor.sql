-- Who acts. A person named by the web process is believed, if people knows them as an operator; any other login acts
-- as itself, whatever it says. Events store this and the login.
--
-- actor: the person that the caller names, or null.
-- Errors: LQ403 the web process named nobody, or somebody who may not act.
create or replace function lakequeue._actor(actor text)
returns text
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if not _acts_as('lakequeue_web') then
    return session_user;
  end if;
  if _acts_as('lakequeue_operator') then
    return coalesce(actor, session_user);  -- web process and operator in one: it may speak for anybody, or for itself
  end if;
  if not exists (select from people p where p.identity = actor and p.role = 'operator') then
    raise exception using errcode = 'LQ403',
      message = format('%s may not do this', coalesce('"' || actor || '"', 'an unnamed person')),
      hint = 'An operator is made with lakequeue.set_person(identity, ''operator'').';
  end if;
  return actor;
end $$;

comment on function lakequeue._actor(text) is 'The person who acts, if they may; else LQ403.';
