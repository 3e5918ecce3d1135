-- What each task has used over all of its attempts, superseded ones included (rule 10). usage_complete: every attempt
-- has complete numbers, so that nothing is missing from the sum; a running one has not.
create or replace view lakequeue.task_costs as
select a.task_id, count(*) as attempts,
       sum(a.input_tokens)::bigint as input_tokens, sum(a.output_tokens)::bigint as output_tokens,
       sum(a.cached_tokens)::bigint as cached_tokens, sum(a.llm_cost) as llm_cost,
       bool_and(a.usage_complete) as usage_complete
from lakequeue.task_attempts a
group by a.task_id;

comment on view lakequeue.task_costs is 'What each task has used over all of its attempts.';
comment on column lakequeue.task_costs.task_id is 'The task.';
comment on column lakequeue.task_costs.attempts is 'Number of its attempts.';
comment on column lakequeue.task_costs.input_tokens is 'Input tokens; null: none known.';
comment on column lakequeue.task_costs.output_tokens is 'Output tokens; null: none known.';
comment on column lakequeue.task_costs.cached_tokens is 'Cached input tokens; null: none known.';
comment on column lakequeue.task_costs.llm_cost is 'Model cost in USD; null: none known.';
comment on column lakequeue.task_costs.usage_complete is 'Every attempt has complete numbers.';
