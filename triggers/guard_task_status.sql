-- Refuses every change of status that db/README.md (How a task moves) does not show, even from a raw UPDATE. The WHEN
-- clause leaves out claims and what ends a run, so that they call nothing, and is short, since every statement that sets a
-- status parses it anew. Errors: LQ409.
create or replace function lakequeue.guard_task_status()
returns trigger
language plpgsql
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if old.status in ('failed', 'cancelled') and new.status in ('enqueued', 'completed') then
    return new;
  end if;
  raise exception using errcode = 'LQ409',
    message = format('task %s cannot go from %s to %s', old.id, old.status, new.status),
    hint = 'Change a task through the functions: cancel_task, retry_task, reprocess_task.';
end $$;

comment on function lakequeue.guard_task_status() is 'Refuses a change of status that is not in the list.';

create or replace trigger guard_task_status
before update of status on lakequeue.tasks
for each row
when (old.status <> new.status and old.status <> 'processing' and (old.status <> 'enqueued' or new.status = 'failed'))
execute function lakequeue.guard_task_status();

comment on trigger guard_task_status on lakequeue.tasks is 'Refuses a change of status that is not in the list.';
