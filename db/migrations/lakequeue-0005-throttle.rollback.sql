set local role lakequeue_owner;

drop index lakequeue.task_attempts_rate_limited;
drop index lakequeue.task_events_rate_limited;

drop table lakequeue.throttle_books;

drop table lakequeue.model_calls;

alter table lakequeue.tasks drop column passed_over_at;

alter table lakequeue.task_attempts drop column reserves_calls, drop column raised;

alter table lakequeue.agents
  drop column max_input_tpm, drop column max_output_tpm, drop column max_rpm, drop column reserves_calls,
  drop column output_share, drop column breaker_failures, drop column failures_in_a_row, drop column learnt_at,
  drop column learnt_from, drop column estimate_factor, drop column estimate_error_p50,
  drop column estimate_error_p95, drop column run_input_tpm, drop column run_output_tpm, drop column run_rpm;

alter table lakequeue.model_endpoints
  drop column max_input_tpm, drop column max_output_tpm, drop column max_rpm, drop column max_passed_over,
  drop column overdue_at;
