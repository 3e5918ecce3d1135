-- The statuses of a filter; null means all of them. Errors: LQ400 a status that there is not.
create or replace function lakequeue._statuses(statuses text[])
returns lakequeue.task_status[]
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return coalesce(statuses::task_status[], enum_range(null::task_status));
exception when invalid_text_representation then
  raise exception using errcode = 'LQ400', message = format('not all of these are statuses: %s', array_to_string(statuses, ', ')),
    hint = 'Statuses: enqueued, processing, completed, failed, cancelled.';
end $$;

comment on function lakequeue._statuses(text[]) is 'The statuses of a filter; null means all of them.';
