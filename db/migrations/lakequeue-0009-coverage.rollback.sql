set local role lakequeue_owner;

drop table lakequeue.hourly_histogram;

-- Rows that the migration made for what was not folded yet.
delete from lakequeue.task_rollups r
where r.tasks = 0 and r.input_tokens = 0 and r.output_tokens = 0 and r.cached_tokens = 0 and r.llm_cost = 0;

alter table lakequeue.purged_tasks
  drop column ran, drop column priced, drop column input_told, drop column output_told, drop column cached_told,
  drop column cost_told;
alter table lakequeue.task_rollups
  drop column ran, drop column priced, drop column input_told, drop column output_told, drop column cached_told,
  drop column cost_told;
alter table lakequeue.task_deltas
  drop column from_ran, drop column from_priced, drop column from_input_told, drop column from_output_told,
  drop column from_cached_told, drop column from_cost_told,
  drop column to_ran, drop column to_priced, drop column to_input_told, drop column to_output_told,
  drop column to_cached_told, drop column to_cost_told;

alter table lakequeue.task_attempts drop column submitted_at;
