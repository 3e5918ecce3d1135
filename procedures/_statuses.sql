-- The statuses of a filter, each once; null means all of them. Errors: LQ400 a status that there is not.
create or replace function lakequeue._statuses(statuses text[])
returns lakequeue.task_status[]
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if exists (select from unnest(statuses) s(status) where s.status is null) then
    raise invalid_text_representation;
  end if;
  return case when statuses is null then enum_range(null::task_status)
              else array(select distinct s.status from unnest(statuses::task_status[]) s(status) order by s.status) end;
exception when invalid_text_representation then
  raise exception using errcode = 'LQ400', message = format('not all of these are statuses: %s', left(array_to_string(statuses, ', ', 'null'), 200)),
    hint = 'Statuses: enqueued, processing, completed, failed, cancelled.';
end $$;

comment on function lakequeue._statuses(text[]) is 'The statuses of a filter; null means all of them.';
