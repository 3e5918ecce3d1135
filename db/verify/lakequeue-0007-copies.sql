-- Where the installation lives, whose run an attempt is, and what was purged.
select home, quiesced_at, inherited_attempts from lakequeue.installation where false;
select job_id from lakequeue.task_attempts where false;
select relay, dismissed from lakequeue.workers where false;
select agent_id, customer, status, hour, bucket, tasks, input_tokens, output_tokens, cached_tokens, llm_cost
from lakequeue.purged_tasks where false;
do $$
begin
  assert (select i.indisvalid from pg_index i where i.indexrelid = 'lakequeue.extraction_documents_task'::regclass),
    'index extraction_documents_task is invalid';
end $$;
