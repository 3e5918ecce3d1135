-- The kinds of limits. Amounts in an array stand in this order; all but tasks are per minute.
create or replace function lakequeue._kinds()
returns text[]
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return array['tasks', 'tokens', 'input_tokens', 'output_tokens', 'requests'];
end $$;

comment on function lakequeue._kinds() is 'The kinds of limits, in the order in which amounts stand in arrays.';
