-- Where this database is, in words to compare: what differs between an installation and a copy of it. The server's system
-- identifier (another one after dump and restore) and the database's oid (another one in a copy on the same server); in a
-- branch of Lakebase both are those of its parent, so there its timeline, where the server tells it, and the branch that
-- the caller names. A renamed database, another address or endpoint and a moved data folder change nothing. A copy of the
-- server's files cannot be told from the server that was moved.
--
-- lakebase_endpoint: projects/…/branches/…, with or without /endpoints/…; null or blank where there is none.
-- Errors: LQ400 not the name of a branch or endpoint.
create or replace function lakequeue._here(lakebase_endpoint text)
returns text
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_branch text := substring(lakebase_endpoint from '^projects/[^/]+/branches/[^/]+');
  v_server text;
begin
  if v_branch is null and _clean_text(lakebase_endpoint, 1) is not null then
    raise exception using errcode = 'LQ400', message = format('"%s" is no Lakebase endpoint', left(lakebase_endpoint, 100)),
      hint = 'Pass projects/PROJECT/branches/BRANCH/endpoints/ENDPOINT.';
  end if;
  begin
    v_server := (select s.system_identifier from pg_control_system() s);
  exception when insufficient_privilege then
    null;  -- somebody has taken it from plain logins: the rest has to do
  end;
  return concat_ws(', ',
    'server ' || v_server,
    (select 'database ' || d.oid from pg_database d where d.datname = current_database()),
    'timeline ' || nullif(current_setting('neon.timeline_id', true), ''),
    v_branch);
end $$;

comment on function lakequeue._here(text) is 'Where this database is, in words to compare.';
