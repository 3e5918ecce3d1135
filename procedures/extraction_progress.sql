-- How far an extraction is: its documents by the state of their tasks. A file sent twice counts twice.
--
-- extraction: its id. Errors: LQ404 unknown extraction, or another application's.
create or replace function lakequeue.extraction_progress(extraction bigint)
returns table (
  documents bigint, refused bigint, enqueued bigint, processing bigint, completed bigint, failed bigint, cancelled bigint)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
  perform _extraction(extraction);
  return query
    select count(*), count(d.refusal),
           count(*) filter (where t.status = 'enqueued'), count(*) filter (where t.status = 'processing'),
           count(*) filter (where t.status = 'completed'), count(*) filter (where t.status = 'failed'),
           count(*) filter (where t.status = 'cancelled')
    from extraction_documents d
    left join lateral (select k.status from tasks k where k.id = d.task_id limit 1) t on true  -- LIMIT keeps it a probe
    where d.extraction_id = extraction;
end $$;

comment on function lakequeue.extraction_progress(bigint) is 'How far an extraction is: its documents by state.';
