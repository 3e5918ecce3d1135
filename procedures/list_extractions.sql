-- Extractions, newest first, a page at a time, each with how far it is: its documents by the state of their tasks.
--
-- page_size: 1 to 100, since every document of these extractions is looked at. before_id: extraction_id of the last row
--   of the page before; null: first page.
-- Errors: LQ400 page_size out of range.
create or replace function lakequeue.list_extractions(page_size integer default 20, before_id bigint default null)
returns table (
  extraction_id bigint, name text, customer text, submitted_by text, created_at timestamptz,
  documents bigint, refused bigint, enqueued bigint, processing bigint, completed bigint, failed bigint, cancelled bigint)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  if page_size is null or page_size not between 1 and 100 then
    raise exception using errcode = 'LQ400', message = 'page_size must be 1 to 100', hint = 'The default is 20.';
  end if;
  return query
    with page as materialized (
      select e.*
      from extractions e
      where e.id < coalesce(before_id, 9223372036854775807)
      order by e.id desc
      limit page_size
    )
    select p.id, p.name, p.customer, p.submitted_by, p.created_at,
           c.documents, c.refused, c.enqueued, c.processing, c.completed, c.failed, c.cancelled
    from page p
    cross join lateral (
      select count(*) as documents, count(d.refusal) as refused,
             count(*) filter (where t.status = 'enqueued') as enqueued,
             count(*) filter (where t.status = 'processing') as processing,
             count(*) filter (where t.status = 'completed') as completed,
             count(*) filter (where t.status = 'failed') as failed,
             count(*) filter (where t.status = 'cancelled') as cancelled
      from extraction_documents d
      left join lateral (select k.status from tasks k where k.id = d.task_id limit 1) t on true  -- LIMIT keeps it a probe
      where d.extraction_id = p.id) c
    order by p.id desc;
end $$;

comment on function lakequeue.list_extractions(integer, bigint) is
  'Extractions, newest first, a page at a time, each with how far it is.';
