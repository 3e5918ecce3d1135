-- The message of an error that an agent reported: a JSON string, or an object with "message". Cut to 4,000 characters.
create or replace function lakequeue._error_text(error json)
returns text
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return (
    select _clean_text(
      case jsonb_typeof(e.value)
        when 'string' then e.value #>> '{}'
        when 'object' then coalesce(e.value ->> 'message', e.value::text)
        when 'null' then null
        else e.value::text
      end, 4000)
    from (select _clean_json(_error_text.error) as value) e);
end $$;

comment on function lakequeue._error_text(json) is 'The message of a reported error, cleaned and cut to 4,000 characters.';
