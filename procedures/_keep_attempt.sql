-- Writes what a report has changed of an attempt, all at once: each new version of its row costs an entry in four
-- indexes. Where its run has ended, so have its model calls.
--
-- attempt: as it is to be, read under its task's row lock, which the caller still holds. What others change without that
-- lock (reserves_calls) is left as it is.
create or replace function lakequeue._keep_attempt(attempt lakequeue.task_attempts)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_reserves_calls boolean;
begin
  update task_attempts a
  set status = attempt.status, ended_at = attempt.ended_at, reported_at = attempt.reported_at,
      run_ended_at = attempt.run_ended_at, presumed_dead_at = attempt.presumed_dead_at,
      error_class = attempt.error_class, error = attempt.error, run_id = attempt.run_id, trace_id = attempt.trace_id,
      input_tokens = attempt.input_tokens, output_tokens = attempt.output_tokens, cached_tokens = attempt.cached_tokens,
      llm_cost = attempt.llm_cost, usage_complete = attempt.usage_complete, usage_source = attempt.usage_source,
      raised = attempt.raised
  where a.id = attempt.id
  returning a.reserves_calls into v_reserves_calls;  -- perhaps since a moment ago
  if v_reserves_calls and attempt.run_ended_at is not null then
    perform _close_calls(array[attempt.id]);
  end if;
end $$;

comment on function lakequeue._keep_attempt(lakequeue.task_attempts) is 'Writes what a report has changed of an attempt.';
