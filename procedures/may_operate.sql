-- Whether a person may act on tasks and agents, so that a page can say so before they try. The functions that act ask
-- again themselves.
--
-- actor: the person, as the web process names them.
create or replace function lakequeue.may_operate(actor text default null)
returns boolean
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  perform _actor(actor);
  return true;
exception when sqlstate 'LQ403' then
  return false;
end $$;

comment on function lakequeue.may_operate(text) is 'Whether a person may act on tasks and agents.';
