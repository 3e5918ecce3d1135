-- Writes the delta of one task's change: it leaves the group (status, day) it stood in, with the usage it had, and
-- enters another; what billing has told of it goes along (_move_compute). Writes nothing if neither status nor usage
-- changed; how many job runs a task has counts once it is finished.
--
-- before, after: the task's row before and after; usage_before, usage_after: _task_usage before and after the change; where
-- the latter is not given, it is looked up.
create or replace function lakequeue._note_change(
  before lakequeue.tasks, after lakequeue.tasks, usage_before numeric[], usage_after numeric[] default null)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if usage_after is null then
    usage_after := _task_usage(after.id);
  end if;
  if before.status = after.status
     and (usage_before = usage_after or after.finished_at is null and usage_before[:10] = usage_after[:10]) then
    return;
  end if;
  insert into task_deltas (
    agent_id, customer, tasks,
    from_status, from_day, from_hour, from_bucket,
    from_input_tokens, from_output_tokens, from_cached_tokens, from_llm_cost,
    from_ran, from_priced, from_input_told, from_output_told, from_cached_told, from_cost_told, from_billable,
    to_status, to_day, to_hour, to_bucket,
    to_input_tokens, to_output_tokens, to_cached_tokens, to_llm_cost,
    to_ran, to_priced, to_input_told, to_output_told, to_cached_told, to_cost_told, to_billable)
  select  -- days and hours as _day and _hour say, with one look at the time zone
    after.agent_id, after.customer, 1,
    before.status, (before.finished_at at time zone i.time_zone)::date, date_trunc('hour', before.finished_at, i.time_zone),
    case when before.status = 'completed' then _response_bucket(before.finished_at - before.created_at) end,
    usage_before[1], usage_before[2], usage_before[3], usage_before[4],
    usage_before[5], usage_before[6], usage_before[7], usage_before[8], usage_before[9], usage_before[10],
    case when before.finished_at is not null then least(usage_before[11], 1) else 0 end,
    after.status, (after.finished_at at time zone i.time_zone)::date, date_trunc('hour', after.finished_at, i.time_zone),
    case when after.status = 'completed' then _response_bucket(after.finished_at - after.created_at) end,
    usage_after[1], usage_after[2], usage_after[3], usage_after[4],
    usage_after[5], usage_after[6], usage_after[7], usage_after[8], usage_after[9], usage_after[10],
    case when after.finished_at is not null then least(usage_after[11], 1) else 0 end
  from installation i;
  -- A task in its first run has never been finished, and so never been billed.
  if (after.attempt_count > 1 or after.attempt_count = 1 and before.status <> 'processing')
     and (before.status, before.finished_at, usage_before[11]) is distinct from (after.status, after.finished_at, usage_after[11]) then
    perform _move_compute(before, after, usage_before[11], usage_after[11]);
  end if;
end $$;

comment on function lakequeue._note_change(lakequeue.tasks, lakequeue.tasks, numeric[], numeric[]) is
  'Writes the delta of one task''s change of status or usage.';
