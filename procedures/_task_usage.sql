-- What all attempts of a task have used so far: {input tokens, output tokens, cached tokens, USD}. Never stored.
create or replace function lakequeue._task_usage(task bigint)
returns numeric[]
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return (
    select array[coalesce(sum(a.input_tokens), 0), coalesce(sum(a.output_tokens), 0),
                 coalesce(sum(a.cached_tokens), 0), coalesce(sum(a.llm_cost), 0)]
    from task_attempts a
    where a.task_id = task);
end $$;

comment on function lakequeue._task_usage(bigint) is 'Tokens and USD that all attempts of a task have used.';
