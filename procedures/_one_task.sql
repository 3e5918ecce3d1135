-- The answer of a function that acts on many tasks, about one task, in words.
--
-- task: the id that was given. outcome, detail: what the function said of it.
-- Errors: LQ404 there is no such task.
create or replace function lakequeue._one_task(task bigint, outcome text, detail text)
returns text
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if outcome = 'skipped' and detail = 'there is no such task' then
    raise exception using errcode = 'LQ404', message = format('there is no task %s', coalesce(task::text, 'null')),
      hint = 'lakequeue.list_tasks() shows the tasks there are.';
  end if;
  return concat_ws(': ', outcome, detail);
end $$;

comment on function lakequeue._one_task(bigint, text, text) is 'The answer about one task, in words.';
