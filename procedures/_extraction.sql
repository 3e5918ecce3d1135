-- The extraction of that id. An application (lakequeue_app and none of the roles that read everything) finds only those
-- that its own login opened, or a role that it inherits: another one's looks like none, so that counting ids up tells nothing.
--
-- extraction: its id. Errors: LQ404 unknown, or another application's.
create or replace function lakequeue._extraction(extraction bigint)
returns lakequeue.extractions
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_extraction extractions;
begin
  select e.* into v_extraction from extractions e where e.id = extraction;
  if not found
     or not (coalesce(pg_has_role(session_user, to_regrole(quote_ident(v_extraction.login)), 'usage'), false)
             or _acts_as('lakequeue_web') or _acts_as('lakequeue_reader') or _acts_as('lakequeue_operator')
             or _acts_as('lakequeue_owner')) then
    raise exception using errcode = 'LQ404', message = format('there is no extraction %s', coalesce(extraction::text, 'null')),
      hint = 'Open one with lakequeue.create_extraction(name), or see lakequeue.list_extractions() for the ones there are.';
  end if;
  return v_extraction;
end $$;

comment on function lakequeue._extraction(bigint) is 'The extraction of that id, if the caller may see it, or LQ404.';
