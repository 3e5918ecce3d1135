-- What is known of the usage, response times by the hour, and when runs were submitted.
select submitted_at from lakequeue.task_attempts where false;
select from_ran, from_priced, from_input_told, from_output_told, from_cached_told, from_cost_told,
       to_ran, to_priced, to_input_told, to_output_told, to_cached_told, to_cost_told
from lakequeue.task_deltas where false;
select ran, priced, input_told, output_told, cached_told, cost_told from lakequeue.task_rollups where false;
select ran, priced, input_told, output_told, cached_told, cost_told from lakequeue.purged_tasks where false;
select agent_id, customer, hour, bucket, tasks from lakequeue.hourly_histogram where false;
