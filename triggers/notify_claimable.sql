-- Changed tasks: workers are nudged when one became claimable or left processing, which frees room. So whatever sets
-- status or retry_at of a task that is not processing afterwards nudges them, and a claim does not. The WHEN clause is
-- short, since it is parsed by every statement that fires it.
create or replace function lakequeue.notify_claimable()
returns trigger
language plpgsql
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if _nudge('lakequeue_worker') then null; end if;  -- an expression: PERFORM would set up a query
  return null;
end $$;

comment on function lakequeue.notify_claimable() is 'Nudges workers when tasks became claimable or left processing.';

create or replace trigger notify_claimable
after update of status, retry_at on lakequeue.tasks
for each row
when (new.status <> 'processing')
execute function lakequeue.notify_claimable();

comment on trigger notify_claimable on lakequeue.tasks is 'Nudges workers when tasks became claimable or left processing.';
