-- Refuses to work on a copy. The first caller notes where the installation lives; whoever comes later must find it there.
-- A worker asks at every connect, the web process on each connection before it submits, takes a callback or asks billing.
--
-- lakebase_endpoint: the caller's LAKEBASE_ENDPOINT, null where there is none: all callers of an installation alike.
-- Returns where it lives, in words. Errors: LQ421 this is a copy; LQ400 not the name of an endpoint.
-- Locks: the first time, the row of installation.
create or replace function lakequeue.check_home(lakebase_endpoint text default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_here text := _here(lakebase_endpoint);
  v_home text := (select i.home from installation i);
  v_more text := coalesce(format(', lakebase_endpoint => %L', nullif(btrim(lakebase_endpoint), '')), '');
begin
  if v_home is null then
    update installation i set home = v_here where i.home is null;
    v_home := (select i.home from installation i);
  end if;
  if v_home <> v_here then
    raise exception using errcode = 'LQ421',
      message = format('this database is a copy: the installation lives at (%s), this is (%s)', v_home, v_here),
      hint = format('A copy for debugging: select * from lakequeue.quiesce(''why''%s). If the installation itself has moved '
                    'here and the old one is no more: select lakequeue.move_here(''why''%s).', v_more, v_more);
  end if;
  return v_home;
end $$;

comment on function lakequeue.check_home(text) is 'Refuses to work on a copy that was not quiesced.';
