-- Puts a person on the list: an operator may act through the web process; a viewer is only known, since whoever the web
-- process lets in may look; null takes them off.
--
-- identity: as the web process is told it, e.g. a mail address. role: operator, viewer or null.
-- Errors: LQ400 a blank identity or another role.
create or replace function lakequeue.set_person(identity text, role text)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if _clean_text(identity, 320) is distinct from identity or identity is null
     or role not in ('viewer', 'operator') then
    raise exception using errcode = 'LQ400', message = 'a person needs an identity and a role',
      hint = 'Roles are viewer and operator; null removes the person.';
  end if;
  if role is null then
    delete from people p where p.identity = set_person.identity;
  else
    insert into people (identity, role) values (set_person.identity, set_person.role)
    on conflict on constraint people_pkey do update set role = excluded.role;
  end if;
  perform _log_event('person_set', detail => jsonb_build_object('identity', identity, 'role', role));
end $$;

comment on function lakequeue.set_person(text, text) is
  'Lets a person act through the web process; a viewer is only known.';
