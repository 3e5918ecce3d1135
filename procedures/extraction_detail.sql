-- What an extraction is: its name, for whom, who submitted it and when. How far it is: extraction_progress.
--
-- extraction: its id. Errors: LQ404 unknown extraction.
create or replace function lakequeue.extraction_detail(extraction bigint)
returns table (extraction_id bigint, name text, customer text, submitted_by text, created_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
    select e.id, e.name, e.customer, e.submitted_by, e.created_at
    from _extraction(extraction) e;
end $$;

comment on function lakequeue.extraction_detail(bigint) is 'What an extraction is: name, customer, who submitted it and when.';
