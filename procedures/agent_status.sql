-- How each agent stands now: what waits, what runs, and how much of each limit is taken.
--
-- agents: names, null for all.
-- Returns a row per agent: enqueued (all of it), waiting (of these, for a retry's time), processing; spending: attempts
--   that count against max_concurrent_tasks, runs that outlived their attempt included; tokens_last_minute: what counts
--   against max_tpm now; the limits as configured (all of them, with what is used: explain_throttle); oldest_waiting: age
--   of the oldest claimable task; failures_in_a_row: what the breaker has counted; estimate_factor and the errors of the
--   estimates (used / estimated - 1) with the number of attempts they come from; run_tpm: tokens per minute
--   of one run that need not wait, where the agent reserves its calls.
-- Errors: LQ404 an unknown agent.
create or replace function lakequeue.agent_status(agents text[] default null)
returns table (
  agent text, model_endpoint text, job_id bigint, paused_at timestamptz, paused_by text, pause_reason text,
  enqueued bigint, waiting bigint, processing bigint, spending bigint, max_concurrent_tasks integer,
  tokens_last_minute bigint, max_tpm bigint, endpoint_spending bigint, endpoint_max_concurrent_tasks integer,
  endpoint_tokens_last_minute bigint, endpoint_max_tpm bigint, cooldown_until timestamptz, oldest_waiting interval,
  failures_in_a_row integer, estimate_factor real, estimate_error_p50 real, estimate_error_p95 real, learnt_from integer,
  run_tpm bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_sort = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
  v_agent_ids integer[] := _agent_ids(agents);
begin
  return query
    with spending as materialized (
      select s.* from _spending(array(select e.id from model_endpoints e), true) s
    ), live as (
      select l.agent_id, sum(l.tasks) as tasks
      from (
        select r.agent_id, r.tasks from task_rollups r
        where r.agent_id = any(v_agent_ids) and r.status = 'enqueued'
        union all
        select s.agent_id, s.tasks from task_deltas d cross join lateral _delta_sides(d) s where s.status = 'enqueued'
      ) l
      group by l.agent_id
    )
    select g.name, e.name, g.job_id, g.paused_at, g.paused_by, g.pause_reason,
           coalesce((select l.tasks from live l where l.agent_id = g.id), 0)::bigint,
           (select count(*) from tasks t
            where t.status = 'enqueued' and t.retry_at is not null and t.agent_id = g.id),
           (select count(*) from tasks t where t.status = 'processing' and t.agent_id = g.id),
           coalesce(mine.tasks, 0)::bigint, g.max_concurrent_tasks, coalesce(mine.tokens, 0)::bigint, g.max_tpm,
           coalesce(everyone.tasks, 0)::bigint, e.max_concurrent_tasks, coalesce(everyone.tokens, 0)::bigint, e.max_tpm,
           case when e.cooldown_until > v_now then e.cooldown_until end,
           v_now - (
             select min(o.created_at)
             from generate_series(0, 9) p(priority)
             cross join lateral (
               select t.created_at from tasks t
               where t.agent_id = g.id and t.priority = p.priority and t.status = 'enqueued' and t.retry_at is null
               order by t.created_at, t.id limit 1) o),
           g.failures_in_a_row, g.estimate_factor, g.estimate_error_p50, g.estimate_error_p95, g.learnt_from,
           ceil(g.run_input_tpm + g.run_output_tpm)::bigint
    from agents g
    join model_endpoints e on e.id = g.model_endpoint_id
    left join lateral (
      select sum(s.used[1]) as tasks, sum(s.used[2]) as tokens from spending s where s.agent_id = g.id) mine on true
    left join lateral (
      select sum(s.used[1]) as tasks, sum(s.used[2]) as tokens from spending s where s.endpoint_id = e.id) everyone on true
    where g.id = any(v_agent_ids)
    order by g.name;
end $$;

comment on function lakequeue.agent_status(text[]) is
  'How each agent stands now: what waits, what runs, how much of each limit is taken.';
