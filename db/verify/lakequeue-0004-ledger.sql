-- The ledger's tables have their columns.
select id, agent_id, customer, tasks, from_status, from_day, from_bucket, from_input_tokens, from_output_tokens,
       from_cached_tokens, from_llm_cost, to_status, to_day, to_bucket, to_input_tokens, to_output_tokens,
       to_cached_tokens, to_llm_cost
from lakequeue.task_deltas where false;
select agent_id, customer, status, day, tasks, input_tokens, output_tokens, cached_tokens, llm_cost
from lakequeue.task_rollups where false;
select agent_id, customer, day, bucket, tasks from lakequeue.response_histogram where false;
