-- New tasks: workers and watchers are nudged once a statement, also by one that inserts none in the end: to look for
-- rows would cost more than a nudge too many.
create or replace function lakequeue.notify_enqueued()
returns trigger
language plpgsql
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if _nudge('lakequeue_worker') then null; end if;  -- an expression: PERFORM would set up a query
  if _nudge('lakequeue_changes') then null; end if;
  return null;
end $$;

comment on function lakequeue.notify_enqueued() is 'Nudges workers and watchers when tasks were enqueued.';

create or replace trigger notify_enqueued
after insert on lakequeue.tasks
for each statement
execute function lakequeue.notify_enqueued();

comment on trigger notify_enqueued on lakequeue.tasks is 'Nudges workers and watchers when tasks were enqueued.';
