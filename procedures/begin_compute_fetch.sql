-- Begins to ask billing for costs, on a person's action: who presses while somebody's fetch runs joins that one. Whoever
-- is told `joined` false asks the warehouse, and calls update_compute_fetch every few seconds until record_compute_cost
-- or an end in words; a fetch silent for a minute is lost, and the next one begins anew.
--
-- actor: the person who asks. from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- batch_size: most runs to ask for, 1 to 10000.
-- Returns the fetch; the run ids to ask for, each once, and the agents' model endpoints; usage_from and usage_to, the days of usage
--   (UTC) that all of them lie in, endpoints' at most 92 days back; more: further runs wait for the next time. When
--   joined, the same of the fetch that runs, without its runs.
-- Errors: LQ428 not READ COMMITTED; LQ403 the person may not; LQ409 no agent under the filter is a Databricks job, nor
--   has it such runs; LQ400, LQ404 as runs_to_price.
-- Locks: one at a time (advisory, key -5), then the rows of runs in id order.
create or replace function lakequeue.begin_compute_fetch(
  actor text default null, from_day date default null, to_day date default null, statuses text[] default null,
  agents text[] default null, customers text[] default null, batch_size integer default 5000)
returns table (
  fetch_id bigint, joined boolean, run_ids bigint[], endpoints text[], usage_from date, usage_to date, more boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  c_days constant integer := 92;
  v_actor text := _actor(actor);
  v_now timestamptz;
  v_today date;
  v_fetch compute_fetches;
  v_endpoints text[];
  v_first timestamptz;
  v_runs jsonb;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('begin_compute_fetch');
  end if;
  perform pg_advisory_xact_lock(_lock_class(), -5);
  v_now := _now();
  v_today := (v_now at time zone 'UTC')::date;

  v_fetch := _compute_fetch(f.id) from compute_fetches f where f.state = 'running';
  if v_fetch.state = 'running' then
    return query
      select v_fetch.id, true, '{}'::bigint[], v_fetch.endpoints, v_fetch.usage_from, v_fetch.usage_to, v_fetch.more;
    return;
  end if;

  v_endpoints := array(
    select distinct e.name
    from agents g join model_endpoints e on e.id = g.model_endpoint_id
    where g.id = any(_agent_ids(begin_compute_fetch.agents)) and g.job_id is not null
    order by e.name);
  select coalesce(jsonb_agg(jsonb_build_array(r.attempt_id, r.task_id, r.run_id)), '[]'), min(r.started_at)
  into v_runs, v_first
  from runs_to_price(from_day, to_day, statuses, agents, customers, batch_size) r;
  if v_endpoints = '{}' and v_runs = '[]' then  -- an agent may have had a job whose runs are not settled yet
    raise exception using errcode = 'LQ409', message = 'no agent chosen here is a Databricks job, so nothing of theirs is billed',
      hint = 'An agent is made one with lakequeue.configure_agent(agent, job_id => …).';
  end if;

  insert into compute_fetches as f (asked_by, usage_from, usage_to, endpoints, runs, more, started_at, seen_at)
  values (
    v_actor,
    least(greatest(coalesce(from_day, v_today - c_days), v_today - c_days), (v_first at time zone 'UTC')::date) - 1,
    v_today + 1, v_endpoints, jsonb_array_length(v_runs), jsonb_array_length(v_runs) = batch_size, v_now, v_now)
  returning f.* into v_fetch;
  insert into compute_runs as r (attempt_id, task_id, run_id, fetch_id)
  select (a.run ->> 0)::bigint, (a.run ->> 1)::bigint, (a.run ->> 2)::bigint, v_fetch.id
  from jsonb_array_elements(v_runs) a(run)
  order by 1
  on conflict on constraint compute_runs_pkey do update set fetch_id = excluded.fetch_id;
  perform _log_event('costs_asked', actor => v_actor, detail => jsonb_build_object('fetch', v_fetch.id, 'runs', v_fetch.runs));
  return query
    select v_fetch.id, false, array(select distinct (a.run ->> 2)::bigint from jsonb_array_elements(v_runs) a(run) order by 1), v_endpoints,
           v_fetch.usage_from, v_fetch.usage_to, v_fetch.more;
end $$;

comment on function lakequeue.begin_compute_fetch(text, date, date, text[], text[], text[], integer) is
  'Begins to ask billing for costs, or joins the fetch that runs.';
