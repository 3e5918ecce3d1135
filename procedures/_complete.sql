-- What _apply_callback does with the plain among many reports, in one pass: a success with its result, from the running first
-- attempt of a task, which nobody else has settled. Whatever is not as plain is left to _apply_callback.
--
-- attempts, results and so on: an element per report, see record_callback; all of them say success, no task has two of them,
-- and the caller has checked their tokens, cleaned the results (_clean_json) and locked the tasks by a statement before.
-- Returns the attempts that were accepted; nothing was done about the others.
-- Errors: LQ400, LQ422 as record_callback, of any of them.
-- Locks: the attempts; the caller holds the rows of their tasks.
create or replace function lakequeue._complete(
  attempts bigint[], results jsonb[], confidences double precision[], input_tokens bigint[], output_tokens bigint[],
  cached_tokens bigint[], llm_costs numeric[], usage_complete boolean[], run_ids bigint[], trace_ids text[])
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_now timestamptz := _now();
  v_accepted bigint[];
  v_calls bigint[];
  v_agents integer[];
begin
  with plain as materialized (  -- LIMIT keeps the probes of tables probes, whatever the statistics say
    select (a.was).id, (a.was).task_id, t.agent_id, t.customer, j.result, r.confidence,
           _response_bucket(v_now - t.created_at) as bucket, greatest(t.lease_expires_at, v_now) + g.reconcile_grace as presumed_dead_at,
           r.run_id, _clean_text(r.trace_id, 500) as trace_id,
           (a.was).job_id is not null and coalesce((a.was).run_id, r.run_id) is not null as billable,
           (a.was).input_tokens as input_before, (a.was).output_tokens as output_before,
           (a.was).cached_tokens as cached_before, (a.was).llm_cost as cost_before,
           s.input_tokens, s.output_tokens, s.cached_tokens, s.llm_cost, s.usage_complete, s.usage_source, s.raised
    from unnest(attempts, results, confidences, input_tokens, output_tokens, cached_tokens, llm_costs, usage_complete, run_ids,
                trace_ids)
      r(attempt, result, confidence, input, output, cached, cost, complete, run_id, trace_id)
    cross join lateral (
      select x as was from task_attempts x
      where x.id = r.attempt and x.status = 'running' and x.reported_at is null
      limit 1) a
    cross join lateral (
      select x.agent_id, x.customer, x.created_at, x.lease_expires_at from tasks x
      where x.id = (a.was).task_id and x.status = 'processing' and x.attempt_count = 1
      limit 1) t
    join agents g on g.id = t.agent_id
    cross join lateral (select _check_json(r.result) as result offset 0) j
    cross join lateral _settle_usage(
      a.was, r.input, r.output, r.cached, r.cost, coalesce(r.complete, false), 'callback', g.output_share) s
    where jsonb_typeof(j.result) <> 'null' and (r.confidence between 0 and 1) is not false
      and (select x.attempt_id from results x where x.attempt_id = (a.was).id) is null
  ), completed as (
    update tasks t
    set status = 'completed', finished_at = v_now, locked_by = null, lease_expires_at = null, retry_at = null, error = null
    from plain p
    where t.id = any(array[p.task_id])  -- as =, but of no use in an order: planned on a row or two, = reads the whole index for one
  ), stored as (
    insert into results (attempt_id, task_id, result, confidence, stored_at)
    select p.id, p.task_id, p.result, _confidence(p.confidence), v_now from plain p
  ), noted as (
    insert into task_deltas (
      agent_id, customer, tasks,
      from_status, from_input_tokens, from_output_tokens, from_cached_tokens, from_llm_cost,
      from_ran, from_priced, from_input_told, from_output_told, from_cached_told, from_cost_told,
      to_status, to_day, to_hour, to_bucket, to_input_tokens, to_output_tokens, to_cached_tokens, to_llm_cost,
      to_ran, to_priced, to_input_told, to_output_told, to_cached_told, to_cost_told, to_billable)
    select d.agent_id, d.customer, d.tasks,
           'processing', d.input_before, d.output_before, d.cached_before, d.cost_before,
           d.tasks, d.costs_before, d.inputs_before, d.outputs_before, d.cacheds_before, d.costs_before,
           'completed', _day(v_now), _hour(v_now), d.bucket, d.input, d.output, d.cached, d.cost,
           d.tasks, d.costs, d.inputs, d.outputs, d.cacheds, d.costs, d.billable
    from (
      select p.agent_id, p.customer, p.bucket, count(*) as tasks,
             coalesce(sum(p.input_before), 0) as input_before, coalesce(sum(p.output_before), 0) as output_before,
             coalesce(sum(p.cached_before), 0) as cached_before, coalesce(sum(p.cost_before), 0) as cost_before,
             count(p.input_before) as inputs_before, count(p.output_before) as outputs_before,
             count(p.cached_before) as cacheds_before, count(p.cost_before) as costs_before,
             coalesce(sum(p.input_tokens), 0) as input, coalesce(sum(p.output_tokens), 0) as output,
             coalesce(sum(p.cached_tokens), 0) as cached, coalesce(sum(p.llm_cost), 0) as cost,
             count(p.input_tokens) as inputs, count(p.output_tokens) as outputs, count(p.cached_tokens) as cacheds,
             count(p.llm_cost) as costs, count(*) filter (where p.billable) as billable
      from plain p
      group by p.agent_id, p.customer, p.bucket) d
  ), written as (
    update task_attempts a
    set status = 'succeeded', ended_at = v_now, reported_at = v_now, run_ended_at = v_now,
        presumed_dead_at = coalesce(a.presumed_dead_at, p.presumed_dead_at), error_class = null, error = null,
        run_id = coalesce(a.run_id, p.run_id), trace_id = coalesce(a.trace_id, p.trace_id),
        input_tokens = p.input_tokens, output_tokens = p.output_tokens, cached_tokens = p.cached_tokens, llm_cost = p.llm_cost,
        usage_complete = p.usage_complete, usage_source = p.usage_source, raised = p.raised
    from plain p
    where a.id = any(array[p.id])
    returning a.id, a.reserves_calls, p.agent_id
  )
  select coalesce(array_agg(w.id), '{}'), array_agg(w.id) filter (where w.reserves_calls),
         array_agg(distinct w.agent_id)
  into v_accepted, v_calls, v_agents
  from written w;

  if v_calls is not null then
    perform _close_calls(v_calls);
  end if;
  perform _count_outcome(u.agent, failed => false, error => null) from unnest(v_agents) u(agent);
  return v_accepted;
end $$;

comment on function lakequeue._complete(bigint[], jsonb[], double precision[], bigint[], bigint[], bigint[], numeric[], boolean[],
  bigint[], text[]) is 'What _apply_callback does with the plain among many reports, in one pass.';
