-- Makes a worker the owner of locked, enqueued tasks: processing, a lease, a new attempt each. The claims, their attempts
-- and the delta exist together or not at all. attempt_count rises here (rule 7): a crash counts.
--
-- tasks: ids, locked by the caller. worker: its name; relay: where it runs agents. An attempt notes its agent's job, unless
-- the worker runs agents on its own machine.
-- Returns what _claims says of the new attempts, in its order, without reading them again.
create or replace function lakequeue._claim(tasks bigint[], worker text, relay text default null)
returns table (
  outcome text, task_id bigint, attempt_id bigint, attempt_number integer, agent text, job_id bigint,
  run_key uuid, callback_token text, customer text, document_path text, payload jsonb, page_count integer,
  priority smallint, estimated_tokens bigint, max_tpm bigint, lease_duration interval,
  lease_expires_at timestamptz, parameters jsonb, model_prices jsonb, reserves_calls boolean)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
begin
  -- A task that ran before carries what its earlier attempts used, and what billing has told of them.
  if exists (select from tasks t where t.id = any(_claim.tasks) and t.attempt_count > 0) then
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
      select t.agent_id, t.customer, count(*) as tasks,
             sum(u.used[1]) as input, sum(u.used[2]) as output, sum(u.used[3]) as cached, sum(u.used[4]) as cost,
             sum(u.used[5]) as ran, sum(u.used[6]) as priced,
             sum(u.used[7]) as input_told, sum(u.used[8]) as output_told, sum(u.used[9]) as cached_told, sum(u.used[10]) as cost_told
      from tasks t
      cross join lateral (select _task_usage(t.id) as used offset 0) u  -- OFFSET keeps it one call a task
      where t.id = any(_claim.tasks) and t.attempt_count > 0
      group by t.agent_id, t.customer) d;
    insert into compute_deltas (agent_id, customer, status, currency, tasks, priced, list_cost)
    select g.agent_id, g.customer, s.status, g.currency, s.sign * g.tasks, 0, s.sign * g.list_cost
    from _compute_groups(_claim.tasks) g
    cross join (values ('enqueued'::task_status, -1), ('processing', 1)) s(status, sign);
  end if;

  return query
    with claimed as (
      update tasks t
      set status = 'processing', attempt_count = t.attempt_count + 1,
          passed_over_at = null, estimated_tokens = _estimate(a, t.page_count, t.document_bytes),
          locked_by = worker, lease_expires_at = v_now + a.lease_duration
      from agents a
      where t.id = any(_claim.tasks) and a.id = t.agent_id
      returning t.id, t.attempt_count, t.agent_id, t.customer, t.document_path, t.payload, t.page_count, t.priority,
                t.created_at, t.estimated_tokens, t.lease_expires_at, a.name, a.model_endpoint_id, a.max_tpm,
                a.lease_duration, a.parameters, a.reserves_calls,
                case when relay is distinct from 'local' then a.job_id end as job_id,
                nextval('lakequeue.task_attempts_id_seq') as attempt_id, gen_random_uuid() as run_key
    ), started as (
      insert into task_attempts (
        id, task_id, number, agent_id, endpoint_id, estimated_tokens, reserves_calls, job_id, worker, run_key, started_at)
      overriding system value
      select c.attempt_id, c.id, c.attempt_count, c.agent_id, c.model_endpoint_id, c.estimated_tokens, c.reserves_calls,
             c.job_id, worker, c.run_key, v_now
      from claimed c
    ), noted as (  -- from now on they have run, and their cost is not known in full
      insert into task_deltas (agent_id, customer, tasks, from_status, to_status, to_ran)
      select c.agent_id, c.customer, count(*), 'enqueued', 'processing', count(*)
      from claimed c
      where c.attempt_count = 1
      group by c.agent_id, c.customer
    )
    select 'claimed', c.id, c.attempt_id, c.attempt_count, c.name, c.job_id,
           c.run_key, _derive_token(c.attempt_id, c.run_key, i.secret), c.customer, c.document_path, c.payload, c.page_count,
           c.priority, c.estimated_tokens,
           least(c.max_tpm, (select e.max_tpm from model_endpoints e where e.id = c.model_endpoint_id)), c.lease_duration,
           c.lease_expires_at, c.parameters, (select p.prices from _model_prices() p), c.reserves_calls
    from claimed c
    cross join installation i
    order by c.priority desc, c.created_at, c.id;
end $$;

comment on function lakequeue._claim(bigint[], text, text) is 'Makes a worker the owner of locked tasks.';
