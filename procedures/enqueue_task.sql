-- Enqueues one document. A dedup_key that a task of the same agent and customer holds that is not failed or
-- cancelled, nor asked to cancel while it runs, returns that task instead.
--
-- agent: its name. document_path: where the agent finds the document. priority: 0 to 9, higher goes first.
-- customer: by default the extraction's. extraction: its id. payload: further input for the agent, at most 8 kB.
-- dedup_key: a content hash, as a rule. page_count, document_bytes: for the estimate.
-- Returns the task's id.
-- Errors, locks: as enqueue_tasks.
create or replace function lakequeue.enqueue_task(
  agent text, document_path text, priority integer default 5, customer text default null,
  extraction bigint default null, payload json default null, dedup_key text default null,
  page_count integer default null, document_bytes bigint default null)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
  return (_enqueue(
    agent, customer, extraction, array[document_path], array[document_path], array[null::text], array[priority],
    array[nullif(_clean_json(payload), 'null')], array[dedup_key], array[page_count], array[document_bytes])).task_ids[1];
end $$;

comment on function lakequeue.enqueue_task(text, text, integer, text, bigint, json, text, integer, bigint) is
  'Enqueues one document and returns its task; a dedup_key returns the task that holds it.';
