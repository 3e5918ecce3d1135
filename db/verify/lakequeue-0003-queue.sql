-- The queue's tables have their columns, and the indexes that the functions count on are valid (but for those that
-- 0013 replaced, and 0014 and 0020 dropped).
select id, name, customer, submitted_by, created_at from lakequeue.extractions where false;
select id, extraction_id, name, task_id, refusal from lakequeue.extraction_documents where false;
select id, agent_id, extraction_id, customer, document_path, payload, dedup_key, priority, status, created_at, retry_at,
       estimated_tokens, page_count, document_bytes, attempt_count, failures, rate_limited, locked_by,
       lease_expires_at, cancel_requested_at, error, finished_at, reprocess_of
from lakequeue.tasks where false;
select id, task_id, number, agent_id, endpoint_id, estimated_tokens, worker, run_key, run_id, trace_id, status,
       started_at, checked_at, ended_at, reported_at, run_ended_at, presumed_dead_at, error_class, error,
       input_tokens, output_tokens, cached_tokens, llm_cost, usage_complete, usage_source
from lakequeue.task_attempts where false;
select attempt_id, task_id, result, confidence, stored_at from lakequeue.results where false;
select id, at, kind, task_id, attempt_id, agent_id, actor, session_actor, reason, detail
from lakequeue.task_events where false;
select name, host, pid, version, started_at, heartbeat_at, stopped_at from lakequeue.workers where false;
do $$
declare
  v_index text;
begin
  foreach v_index in array array[
    'tasks_claimable', 'tasks_waiting', 'tasks_finished', 'tasks_dedup',
    'task_attempts_spending', 'task_attempts_unsettled'] loop
    assert (select i.indisvalid from pg_index i where i.indexrelid = to_regclass('lakequeue.' || v_index)),
      format('index %s is missing or invalid', v_index);
  end loop;
end $$;
