-- The statuses of the tasks that an action can concern. Which of these tasks it does concern its own function decides, for
-- each task under its lock.
--
-- action: cancel, retry, reprocess or priority.
-- Errors: LQ400 another action.
create or replace function lakequeue._concerned(action text)
returns lakequeue.task_status[]
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_statuses task_status[] := case action
    when 'cancel' then '{enqueued, processing}'
    when 'priority' then '{enqueued, processing}'
    when 'retry' then '{failed, cancelled}'
    when 'reprocess' then '{completed}' end;
begin
  if v_statuses is null then
    raise exception using errcode = 'LQ400', message = format('there is no action "%s"', left(action, 100)),
      hint = 'Actions: cancel, retry, reprocess, priority.';
  end if;
  return v_statuses;
end $$;

comment on function lakequeue._concerned(text) is 'The statuses of the tasks that an action can concern.';
