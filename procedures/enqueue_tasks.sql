-- Enqueues many documents in one call, and writes them down as an extraction's documents. A document whose dedup_key
-- a task of the same agent and customer holds that is not failed or cancelled, nor asked to cancel while it runs, gets that task
-- instead of a new one.
--
-- agent: its name.
-- documents: JSON array of objects: document_path, and optionally name (as the submitter knows it; by default the
--   path), priority, payload, dedup_key, page_count, document_bytes; or name and refusal for a document that was
--   refused: it gets no task, but stands in the extraction with its reason.
-- priority: 0 to 9, for documents that name none. customer: by default the extraction's. extraction: its id.
-- Returns a row per document, in order: position from 1, task_id (null if refused), created (false: existing task).
-- Errors: LQ404 unknown agent or extraction, or another application's; LQ403 the web process without an extraction
-- that an operator submitted; LQ413 more than 64 MB; LQ422 documents of the wrong shape, or that cannot
-- be stored (_clean_json) or read (_check_json); LQ400 a value out of range; LQ409 the task that held a dedup_key kept vanishing.
-- One bad document refuses the whole call: nothing is enqueued.
-- Locks: waits for an open transaction that enqueues the same dedup_key, and for a task that is to be cancelled, whose key
-- it takes away. Keys are inserted in order, so that two
-- calls cannot deadlock.
create or replace function lakequeue.enqueue_tasks(
  agent text, documents json, priority integer default 5, customer text default null, extraction bigint default null)
returns table ("position" integer, task_id bigint, created boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_documents jsonb := _clean_json(documents);
begin
  if jsonb_typeof(v_documents) is distinct from 'array' then
    raise exception using errcode = 'LQ422', message = 'documents must be a JSON array of objects',
      hint = 'Example: [{"document_path": "/Volumes/main/docs/a.pdf", "page_count": 3}].';
  end if;
  return query
    select u.number::integer, u.task_id, u.task_id is not distinct from u.new_id
    from (
      select array_agg(d.name) as names, array_agg(d.document_path) as paths, array_agg(d.refusal) as refusals,
             array_agg(coalesce(d.priority, enqueue_tasks.priority)) as priorities, array_agg(d.payload) as payloads,
             array_agg(d.dedup_key) as dedup_keys, array_agg(d.page_count) as page_counts,
             array_agg(d.document_bytes) as document_bytes
      from _documents(v_documents) d) c
    cross join lateral _enqueue(
      agent, customer, extraction, c.names, c.paths, c.refusals, c.priorities, c.payloads, c.dedup_keys, c.page_counts,
      c.document_bytes) e
    cross join lateral unnest(e.task_ids, e.new_ids) with ordinality u(task_id, new_id, number)
    order by u.number;
end $$;

comment on function lakequeue.enqueue_tasks(text, json, integer, text, bigint) is
  'Enqueues many documents in one call; a dedup_key returns the task that holds it.';
