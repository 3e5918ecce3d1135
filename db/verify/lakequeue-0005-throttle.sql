-- The throttle's columns, and its table of calls with the indexes that the throttle counts on (but for the one that 0016
-- replaced, the count of failures, which 0017 moved, and what 0018 moved).
select max_input_tpm, max_output_tpm, max_rpm, max_passed_over, overdue_at from lakequeue.model_endpoints where false;
select max_input_tpm, max_output_tpm, max_rpm, reserves_calls, output_share, breaker_failures,
       estimate_factor, run_input_tpm, run_output_tpm, run_rpm
from lakequeue.agents where false;
select passed_over_at from lakequeue.tasks where false;
select reserves_calls, raised from lakequeue.task_attempts where false;
select scope, scope_id, no, used, booked, raised from lakequeue.throttle_books where false;
select id, attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, agent_limit,
       granted_at, ended_at, raised
from lakequeue.model_calls where false;
do $$
declare
  v_index text;
begin
  foreach v_index in array array['model_calls_window', 'model_calls_key', 'model_calls_raised',
                                'task_attempts_raised', 'throttle_books_pkey', 'task_attempts_rate_limited',
                                'task_events_rate_limited'] loop
    assert (select i.indisvalid from pg_index i where i.indexrelid = to_regclass('lakequeue.' || v_index)),
      format('index %s is missing or invalid', v_index);
  end loop;
end $$;
