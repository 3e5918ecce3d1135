-- New tasks: one nudge a statement for workers, one for watchers. The statement may have inserted nothing.
create or replace function lakequeue.notify_enqueued()
returns trigger
language plpgsql
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if exists (select from inserted) then
    perform _nudge('lakequeue_worker');
    perform _nudge('lakequeue_changes');
  end if;
  return null;
end $$;

comment on function lakequeue.notify_enqueued() is 'Nudges workers and watchers when tasks were enqueued.';

create or replace trigger notify_enqueued
after insert on lakequeue.tasks
referencing new table as inserted
for each statement
execute function lakequeue.notify_enqueued();

comment on trigger notify_enqueued on lakequeue.tasks is 'Nudges workers and watchers when tasks were enqueued.';
