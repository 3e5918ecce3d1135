-- Makes a worker the owner of locked, enqueued tasks: processing, a lease, a new attempt each. The claims and
-- their attempts are one statement, so that they exist together or not at all; the delta is written before, while usage is
-- still that of the earlier attempts. attempt_count rises here (rule 7): a crash counts.
--
-- tasks: ids, locked by the caller. An attempt notes its agent's job, unless the worker runs agents on its own machine.
-- Returns the ids of the new attempts.
create or replace function lakequeue._claim(tasks bigint[], worker text)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_local boolean := coalesce((select w.relay = 'local' from workers w where w.name = worker), false);
  v_attempt_ids bigint[];
begin
  -- A task that ran before carries what its earlier attempts used; one that never ran carries nothing. From now on it
  -- has run, and its cost is not known in full.
  insert into task_deltas (
    agent_id, customer, tasks,
    from_status, from_input_tokens, from_output_tokens, from_cached_tokens, from_llm_cost,
    from_ran, from_priced, from_input_told, from_output_told, from_cached_told, from_cost_told,
    to_status, to_input_tokens, to_output_tokens, to_cached_tokens, to_llm_cost,
    to_ran, to_input_told, to_output_told, to_cached_told, to_cost_told)
  select c.agent_id, c.customer, c.tasks,
         'enqueued', c.input, c.output, c.cached, c.cost, c.ran, c.priced, c.input_told, c.output_told, c.cached_told, c.cost_told,
         'processing', c.input, c.output, c.cached, c.cost, c.tasks, c.input_told, c.output_told, c.cached_told, c.cost_told
  from (
    select t.agent_id, t.customer, count(*) as tasks,
           coalesce(sum(u.used[1]), 0) as input, coalesce(sum(u.used[2]), 0) as output, coalesce(sum(u.used[3]), 0) as cached,
           coalesce(sum(u.used[4]), 0) as cost, coalesce(sum(u.used[5]), 0) as ran, coalesce(sum(u.used[6]), 0) as priced,
           coalesce(sum(u.used[7]), 0) as input_told, coalesce(sum(u.used[8]), 0) as output_told,
           coalesce(sum(u.used[9]), 0) as cached_told, coalesce(sum(u.used[10]), 0) as cost_told
    from tasks t
    left join lateral (select _task_usage(t.id) as used where t.attempt_count > 0) u on true
    where t.id = any(_claim.tasks)
    group by t.agent_id, t.customer) c;

  with claimed as (
    update tasks t
    set status = 'processing', attempt_count = t.attempt_count + 1,
        passed_over_at = null, estimated_tokens = _estimate(a, t.page_count, t.document_bytes),
        locked_by = worker, lease_expires_at = v_now + a.lease_duration
    from agents a
    where t.id = any(_claim.tasks) and a.id = t.agent_id
    returning t.id, t.attempt_count, t.agent_id, a.model_endpoint_id, t.estimated_tokens, a.reserves_calls, a.job_id
  ), started as (
    insert into task_attempts as n (
      task_id, number, agent_id, endpoint_id, estimated_tokens, reserves_calls, job_id, worker, started_at)
    select c.id, c.attempt_count, c.agent_id, c.model_endpoint_id, c.estimated_tokens, c.reserves_calls,
           case when not v_local then c.job_id end, worker, v_now
    from claimed c
    returning n.id
  )
  select coalesce(array_agg(s.id), '{}') into v_attempt_ids from started s;
  return v_attempt_ids;
end $$;

comment on function lakequeue._claim(bigint[], text) is 'Makes a worker the owner of locked tasks.';
