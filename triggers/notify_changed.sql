-- Changed tasks: watchers are nudged by every statement that sets a status. Heartbeats set none and nudge nobody.
create or replace function lakequeue.notify_changed()
returns trigger
language plpgsql
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if _nudge('lakequeue_changes') then null; end if;  -- an expression: PERFORM would set up a query
  return null;
end $$;

comment on function lakequeue.notify_changed() is 'Nudges watchers when tasks changed status.';

create or replace trigger notify_changed
after update of status on lakequeue.tasks
for each statement
execute function lakequeue.notify_changed();

comment on trigger notify_changed on lakequeue.tasks is 'Nudges watchers when tasks changed status.';
