-- The documents of an extraction in the order of submission, a page at a time, each with what became of it: like
-- extraction_results, but without the pages' texts, so that an extraction of thousands of documents stays light.
--
-- extraction: its id. page_size: 1 to 1000. after_document: document_id of the last row of the page before; null: first.
-- Returns document_id (the key for paging); position from 1; refused: no task was made, status is failed and error the
--   reason; repeated: its task was made for an earlier submission of the same content; result: without "pages";
--   characters: of all pages' texts, 10^9 a page at most, null where the result has no pages; tokens and USD of all attempts of its task.
-- Errors: LQ404 unknown extraction; LQ400 page_size out of range.
create or replace function lakequeue.list_extraction_documents(
  extraction bigint, page_size integer default 200, after_document bigint default null)
returns table (
  document_id bigint, "position" bigint, document text, task_id bigint, refused boolean, repeated boolean, status text,
  page_count integer, result jsonb, characters bigint, confidence real, input_tokens bigint, output_tokens bigint,
  llm_cost numeric, attempts integer, error text, created_at timestamptz, finished_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_sort = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_before bigint;
begin
  if page_size is null or page_size not between 1 and 1000 then
    raise exception using errcode = 'LQ400', message = 'page_size must be 1 to 1000', hint = 'The default is 200.';
  end if;
  perform _extraction(extraction);
  select count(*) into v_before
  from extraction_documents d
  where d.extraction_id >= extraction and (d.extraction_id, d.id) <= (extraction, after_document);

  return query
    with page as materialized (
      select d.*
      from extraction_documents d
      -- so that no other index has this order
      where d.extraction_id <= extraction and (d.extraction_id, d.id) > (extraction, coalesce(after_document, 0))
      order by d.extraction_id, d.id
      limit page_size
    )
    select p.id, v_before + row_number() over (order by p.id), p.name, p.task_id, p.task_id is null,
           (p.task_id is not null and t.extraction_id is distinct from extraction)
             or exists (
               select from (select x.extraction_id, x.id from extraction_documents x where x.task_id = p.task_id offset 0) o
               where o.extraction_id = extraction and o.id < p.id),
           coalesce(t.status::text, 'failed'), t.page_count,
           case when jsonb_typeof(r.result) = 'object' then r.result - 'pages' else r.result end,
           (select sum(least(greatest((c.value #>> '{}')::numeric, 0), 1e9))::bigint  -- whatever a result says of itself
            from jsonb_path_query(r.result, 'lax $.pages[*].characters ? (@.type() == "number")') c(value)),
           r.confidence, u.input_tokens, u.output_tokens, u.llm_cost, coalesce(t.attempt_count, 0),
           coalesce(p.refusal, t.error), t.created_at, t.finished_at
    from page p
    -- LIMIT keeps them probes: planned while there was little, a join reads all there is
    left join lateral (select k.* from tasks k where k.id = p.task_id limit 1) t on true
    left join lateral (select k.id from task_attempts k where k.task_id = t.id and k.status = 'succeeded' limit 1) a on true
    left join lateral (select k.result, k.confidence from results k where k.attempt_id = a.id limit 1) r on true
    left join lateral (
      select sum(w.input_tokens)::bigint as input_tokens, sum(w.output_tokens)::bigint as output_tokens,
             sum(w.llm_cost) as llm_cost
      from task_attempts w where w.task_id = t.id) u on true
    order by p.id;
end $$;

comment on function lakequeue.list_extraction_documents(bigint, integer, bigint) is
  'The documents of an extraction, a page at a time, with status, fields, usage and error.';
