-- Tasks that were finished, and so freed room: workers are nudged, once a statement that sets finished_at. A claim sets
-- none. What goes back to the queue instead: notify_requeued.
create or replace function lakequeue.notify_finished()
returns trigger
language plpgsql
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if _nudge('lakequeue_worker') then null; end if;  -- an expression: PERFORM would set up a query
  return null;
end $$;

comment on function lakequeue.notify_finished() is 'Nudges workers when tasks were finished.';

create or replace trigger notify_finished
after update of finished_at on lakequeue.tasks
for each statement
execute function lakequeue.notify_finished();

comment on trigger notify_finished on lakequeue.tasks is 'Nudges workers when tasks were finished.';
