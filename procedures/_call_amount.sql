-- How much of a kind of limit (see _kinds) one model call takes.
create or replace function lakequeue._call_amount(kind text, input_tokens bigint, output_tokens bigint)
returns bigint
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return case kind when 'tokens' then input_tokens + output_tokens when 'input_tokens' then input_tokens
                   when 'output_tokens' then output_tokens when 'requests' then 1 else 0 end;
end $$;

comment on function lakequeue._call_amount(text, bigint, bigint) is 'How much of a kind of limit one model call takes.';
