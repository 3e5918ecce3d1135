-- Says that the installation lives here now: after a dump was restored in place of a lost server, or production got another
-- branch. Everything goes on: leases, runs, tokens. Only when nothing works on the old database any more, since both have
-- the same secrets and would pay twice for every task.
--
-- reason: why. actor: who; believed only from a login that is web process and operator in one, else it is the login.
-- lakebase_endpoint: the LAKEBASE_ENDPOINT of its workers.
-- Returns moved, or is here already. Errors: LQ400 no reason, or no such endpoint; LQ403 not permitted.
-- Locks: the row of installation.
create or replace function lakequeue.move_here(reason text, actor text default null, lakebase_endpoint text default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_actor text := _actor(actor);
  v_here text := _here(lakebase_endpoint);
  v_home text;
begin
  if _clean_text(reason, 1) is null then
    raise exception using errcode = 'LQ400', message = 'move_here needs a reason', hint = 'It stays in the event.';
  end if;
  select i.home into v_home from installation i for no key update;
  if v_home = v_here then
    return 'is here already';
  end if;
  update installation i set home = v_here;
  perform _log_event('moved', actor => v_actor, reason => reason,
                     detail => jsonb_build_object('from', v_home, 'to', v_here));
  return 'moved';
end $$;

comment on function lakequeue.move_here(text, text, text) is 'Says that the installation lives here now.';
