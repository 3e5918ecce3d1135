-- What all attempts of a task have used so far, and what of it is known, as the ledger counts it: {input tokens, output
-- tokens, cached tokens, USD, ran, priced, whether input, output, cached tokens and cost were told, job runs}. The six from ran on are 1 or 0.
-- It ran if it has an attempt, it is priced if all of its attempts have a cost. Never stored.
create or replace function lakequeue._task_usage(task bigint)
returns numeric[]
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return (
    select array[coalesce(sum(a.input_tokens), 0), coalesce(sum(a.output_tokens), 0),
                 coalesce(sum(a.cached_tokens), 0), coalesce(sum(a.llm_cost), 0),
                 least(count(*), 1), case when count(a.llm_cost) = count(*) then least(count(*), 1) else 0 end,
                 least(count(a.input_tokens), 1), least(count(a.output_tokens), 1), least(count(a.cached_tokens), 1),
                 least(count(a.llm_cost), 1), count(*) filter (where _is_job_run(a))]
    from task_attempts a
    where a.task_id = task);
end $$;

comment on function lakequeue._task_usage(bigint) is 'Tokens and USD that all attempts of a task have used, and what of it is known.';
