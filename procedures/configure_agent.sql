-- Creates an agent or changes it. Whatever is null stays as it is; for a limit 0 means none. The three throttle modes
-- are max_concurrent_tasks alone, max_tpm alone, or both (the stricter one wins).
--
-- agent: its name. job_id: Databricks job: workers of job runs serve it; 0: none, workers of local runs do. model_endpoint:
-- whose budget it spends; made if unknown, by default one of its own with the agent's name. lease_duration: without a
-- heartbeat its attempts lose their task after this.
-- reconcile_grace: how long after that a run may still live; by default one lease, 0 where no run outlives its worker.
-- max_attempts, max_rate_limited: failures, and rate limits, at which a task fails for good. retry_base, retry_cap: first
-- and longest wait before a retry.
-- tokens_per_task, tokens_per_page: what estimate_tokens reckons with. estimate_factor: what it multiplies by from now on,
--   until completed tasks teach otherwise; 1.5 for a new agent, since an estimate that is too low overruns a limit and one
--   that is too high only costs time. parameters: handed to every run.
-- max_input_tpm, max_output_tpm, max_rpm: further limits, see configure_endpoint. reserves_calls: its runs ask
--   reserve_tokens before every model call. output_share: part of an estimate that is
--   output. breaker_failures: so many failures in a row pause it; 0: never.
-- Returns the agent's id.
-- Errors: LQ428 not READ COMMITTED; LQ400 a name that is none (_is_name) or a value out of range; LQ422 see _check_json.
-- Locks: the one of changes to agents (two that move an agent at once would each miss an endpoint of the other); then the
--   throttle locks of its endpoint, of those it has left and, when it moves, of the new one, by id.
create or replace function lakequeue.configure_agent(
  agent text, job_id bigint default null, model_endpoint text default null,
  max_concurrent_tasks integer default null, max_tpm bigint default null,
  lease_duration interval default null, reconcile_grace interval default null,
  max_attempts integer default null, max_rate_limited integer default null,
  retry_base interval default null, retry_cap interval default null,
  tokens_per_task integer default null, tokens_per_page integer default null, parameters jsonb default null,
  max_input_tpm bigint default null, max_output_tpm bigint default null, max_rpm bigint default null,
  reserves_calls boolean default null, output_share double precision default null, breaker_failures integer default null,
  estimate_factor double precision default null)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_id integer;
  v_endpoint_id integer;
  v_old_endpoint_id integer;
  v_former_endpoint_ids integer[];
  v_before agents;
  v_after agents;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('configure_agent');
  end if;
  if not _is_name(agent) or not _is_name(coalesce(model_endpoint, agent)) then
    raise exception using errcode = 'LQ400', message = 'agents and endpoints need names of 1 to 200 characters',
      hint = 'On one line, without blanks around.';
  end if;
  if job_id < 0 then
    raise exception using errcode = 'LQ400', message = format('%s is no job id', job_id),
      hint = 'Databricks shows it beside the job''s name; 0 stands for none.';
  end if;

  perform _check_json(parameters);
  perform pg_advisory_xact_lock(_lock_class(), -4);
  select a.id, a.model_endpoint_id, a.former_endpoint_ids into v_id, v_old_endpoint_id, v_former_endpoint_ids
  from agents a where a.name = agent;
  if model_endpoint is null and v_id is not null then
    v_endpoint_id := v_old_endpoint_id;
  else
    insert into model_endpoints (name) values (coalesce(model_endpoint, agent)) on conflict do nothing;
    select e.id into v_endpoint_id from model_endpoints e where e.name = coalesce(model_endpoint, agent);
  end if;
  perform pg_advisory_xact_lock(_lock_class(), l.id)
  from (select distinct u.id from unnest(array[v_endpoint_id, v_old_endpoint_id] || v_former_endpoint_ids) u(id)
        where u.id is not null order by u.id) l;

  insert into agents (name, model_endpoint_id) values (agent, v_endpoint_id) on conflict do nothing;
  select a.* into v_before from agents a where a.name = agent;
  update agents a
  set job_id = nullif(coalesce(configure_agent.job_id, a.job_id), 0),
      model_endpoint_id = v_endpoint_id,
      former_endpoint_ids = case when a.model_endpoint_id = v_endpoint_id or a.model_endpoint_id = any(a.former_endpoint_ids)
                                 then a.former_endpoint_ids else a.former_endpoint_ids || a.model_endpoint_id end,
      max_concurrent_tasks = nullif(coalesce(configure_agent.max_concurrent_tasks, a.max_concurrent_tasks), 0),
      max_tpm = nullif(coalesce(configure_agent.max_tpm, a.max_tpm), 0),
      lease_duration = coalesce(configure_agent.lease_duration, a.lease_duration),
      reconcile_grace = coalesce(configure_agent.reconcile_grace,
                                 case when v_id is null then configure_agent.lease_duration end, a.reconcile_grace),
      max_attempts = coalesce(configure_agent.max_attempts, a.max_attempts),
      max_rate_limited = coalesce(configure_agent.max_rate_limited, a.max_rate_limited),
      retry_base = coalesce(configure_agent.retry_base, a.retry_base),
      retry_cap = coalesce(configure_agent.retry_cap, a.retry_cap),
      tokens_per_task = coalesce(configure_agent.tokens_per_task, a.tokens_per_task),
      tokens_per_page = coalesce(configure_agent.tokens_per_page, a.tokens_per_page),
      parameters = coalesce(configure_agent.parameters, a.parameters),
      max_input_tpm = nullif(coalesce(configure_agent.max_input_tpm, a.max_input_tpm), 0),
      max_output_tpm = nullif(coalesce(configure_agent.max_output_tpm, a.max_output_tpm), 0),
      max_rpm = nullif(coalesce(configure_agent.max_rpm, a.max_rpm), 0),
      reserves_calls = coalesce(configure_agent.reserves_calls, a.reserves_calls),
      output_share = coalesce(configure_agent.output_share, a.output_share),
      breaker_failures = coalesce(configure_agent.breaker_failures, a.breaker_failures),
      estimate_factor = coalesce(configure_agent.estimate_factor, a.estimate_factor)
  where a.name = agent
  returning a.* into v_after;
  perform _void_books(v_endpoint_id || v_after.former_endpoint_ids);
  if v_id is null or v_after is distinct from v_before then
    perform _log_event('agent_configured', agent => v_after.id, detail => to_jsonb(v_after) - 'id');
    perform _nudge('lakequeue_worker');
  end if;
  return v_after.id;
exception when check_violation or numeric_value_out_of_range then
  raise exception using errcode = 'LQ400', message = format('agent "%s": %s', agent, left(sqlerrm, 300)),
    hint = 'Ranges: limits and tokens from 0; lease_duration 1 second to 1 day; reconcile_grace and retry_cap 0 to 7 days;'
      ' retry_base 0 to 1 day; max_attempts 1 to 100; max_rate_limited and breaker_failures 0 to 1000; output_share 0 to 1;'
      ' estimate_factor above 0, to 100; parameters a JSON object.';
end $$;

comment on function lakequeue.configure_agent(text, bigint, text, integer, bigint, interval, interval, integer, integer,
  interval, interval, integer, integer, jsonb, bigint, bigint, bigint, boolean, double precision, integer, double precision) is
  'Creates an agent or changes it: job, endpoint, limits, lease, retries, estimates (null: unchanged, 0: no limit).';
