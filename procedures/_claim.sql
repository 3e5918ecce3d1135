-- Makes a worker the owner of locked, enqueued tasks: processing, a lease, a new attempt each. The claims, their attempts
-- and the delta are one statement, so that they exist together or not at all. attempt_count rises here (rule 7): a crash
-- counts.
--
-- tasks: ids, locked by the caller. worker: its name; relay: where it runs agents. An attempt notes its agent's job, unless
-- the worker runs agents on its own machine.
-- Returns the ids of the new attempts.
create or replace function lakequeue._claim(tasks bigint[], worker text, relay text default null)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_attempt_ids bigint[];
begin
  with claimed as (
    update tasks t
    set status = 'processing', attempt_count = t.attempt_count + 1,
        passed_over_at = null, estimated_tokens = _estimate(a, t.page_count, t.document_bytes),
        locked_by = worker, lease_expires_at = v_now + a.lease_duration
    from agents a
    where t.id = any(_claim.tasks) and a.id = t.agent_id
    returning t.id, t.attempt_count, t.agent_id, t.customer, a.model_endpoint_id, t.estimated_tokens, a.reserves_calls, a.job_id
  ), started as (
    insert into task_attempts as n (
      task_id, number, agent_id, endpoint_id, estimated_tokens, reserves_calls, job_id, worker, started_at)
    select c.id, c.attempt_count, c.agent_id, c.model_endpoint_id, c.estimated_tokens, c.reserves_calls,
           case when relay is distinct from 'local' then c.job_id end, worker, v_now
    from claimed c
    returning n.id
  ), noted as (
    -- A task that ran before carries what its earlier attempts used; one that never ran carries nothing. From now on it has
    -- run, and its cost is not known in full.
    insert into task_deltas (
      agent_id, customer, tasks,
      from_status, from_input_tokens, from_output_tokens, from_cached_tokens, from_llm_cost,
      from_ran, from_priced, from_input_told, from_output_told, from_cached_told, from_cost_told,
      to_status, to_input_tokens, to_output_tokens, to_cached_tokens, to_llm_cost,
      to_ran, to_input_told, to_output_told, to_cached_told, to_cost_told)
    select d.agent_id, d.customer, d.tasks,
           'enqueued', d.input, d.output, d.cached, d.cost, d.ran, d.priced, d.input_told, d.output_told, d.cached_told, d.cost_told,
           'processing', d.input, d.output, d.cached, d.cost, d.tasks, d.input_told, d.output_told, d.cached_told, d.cost_told
    from (
      select c.agent_id, c.customer, count(*) as tasks,
             coalesce(sum(u.used[1]), 0) as input, coalesce(sum(u.used[2]), 0) as output, coalesce(sum(u.used[3]), 0) as cached,
             coalesce(sum(u.used[4]), 0) as cost, coalesce(sum(u.used[5]), 0) as ran, coalesce(sum(u.used[6]), 0) as priced,
             coalesce(sum(u.used[7]), 0) as input_told, coalesce(sum(u.used[8]), 0) as output_told,
             coalesce(sum(u.used[9]), 0) as cached_told, coalesce(sum(u.used[10]), 0) as cost_told
      from claimed c
      cross join lateral (  -- OFFSET keeps it one call a task, not one for each number
        select case when c.attempt_count > 1 then _task_usage(c.id) end as used offset 0) u
      group by c.agent_id, c.customer) d
  )
  select coalesce(array_agg(s.id), '{}') into v_attempt_ids from started s;
  return v_attempt_ids;
end $$;

comment on function lakequeue._claim(bigint[], text, text) is 'Makes a worker the owner of locked tasks.';
