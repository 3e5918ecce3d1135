-- The documents of an extraction in the order of submission, each with what became of it. A refused one is failed, its
-- reason is the error. Tokens and USD are of all attempts of the document's task.
--
-- extraction: its id. Errors: LQ404 unknown extraction, or another application's.
create or replace function lakequeue.extraction_results(extraction bigint)
returns table (
  "position" integer, document text, task_id bigint, status text, result jsonb, confidence real, input_tokens bigint,
  output_tokens bigint, llm_cost numeric, attempts integer, error text)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  perform _extraction(extraction);
  return query
    select row_number() over (order by d.id)::integer, d.name, d.task_id,
           coalesce(t.status::text, 'failed'), r.result, r.confidence, c.input_tokens, c.output_tokens, c.llm_cost,
           coalesce(t.attempt_count, 0), coalesce(d.refusal, t.error)
    from extraction_documents d
    -- LIMIT keeps them probes, as in list_extraction_documents
    left join lateral (select k.* from tasks k where k.id = d.task_id limit 1) t on true
    left join lateral (select k.id from task_attempts k where k.task_id = t.id and k.status = 'succeeded' limit 1) a on true
    left join lateral (select k.result, k.confidence from results k where k.attempt_id = a.id limit 1) r on true
    left join lateral (
      select sum(u.input_tokens)::bigint as input_tokens, sum(u.output_tokens)::bigint as output_tokens,
             sum(u.llm_cost) as llm_cost
      from task_attempts u where u.task_id = t.id) c on true
    where d.extraction_id = extraction
    order by d.id;
end $$;

comment on function lakequeue.extraction_results(bigint) is
  'The documents of an extraction, each with status, result, usage and error.';
