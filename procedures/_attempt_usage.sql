-- What _task_usage says of a task that has run once, from its only attempt. Never stored.
create or replace function lakequeue._attempt_usage(attempt lakequeue.task_attempts)
returns numeric[]
language sql immutable
return array[
  coalesce(attempt.input_tokens, 0), coalesce(attempt.output_tokens, 0), coalesce(attempt.cached_tokens, 0),
  coalesce(attempt.llm_cost, 0), 1, (attempt.llm_cost is not null)::integer, (attempt.input_tokens is not null)::integer,
  (attempt.output_tokens is not null)::integer, (attempt.cached_tokens is not null)::integer,
  (attempt.llm_cost is not null)::integer, _is_job_run(attempt)::integer];

comment on function lakequeue._attempt_usage(lakequeue.task_attempts) is
  'What _task_usage says of a task that has run once, from its only attempt.';
