-- Tasks that wait again, after a failure, a retry or when a retry is due: workers are nudged. (Whatever left processing
-- otherwise is finished: notify_finished.) The WHEN clause is short, since every statement that sets one of these columns
-- parses it anew.
create or replace function lakequeue.notify_requeued()
returns trigger
language plpgsql
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if _nudge('lakequeue_worker') then null; end if;  -- an expression: PERFORM would set up a query
  return null;
end $$;

comment on function lakequeue.notify_requeued() is 'Nudges workers when tasks wait again.';

create or replace trigger notify_requeued
after update of status, retry_at on lakequeue.tasks
for each row
when (new.status = 'enqueued')
execute function lakequeue.notify_requeued();

comment on trigger notify_requeued on lakequeue.tasks is 'Nudges workers when tasks wait again.';
