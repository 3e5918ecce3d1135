-- How each agent stands now: what waits, what runs, what it spends, and what its last hour and its failures say. Its
-- limits, with how much of each is taken, are explain_throttle's alone.
--
-- agents: names, null for all.
-- Returns a row per agent: enqueued (all of it), waiting (of these, for a retry's time), processing; spending: attempts
--   that count against max_concurrent_tasks, runs that outlived their attempt included; tokens_last_minute: what counts
--   against max_tpm now; both are the agent's own, whatever endpoint they are at; oldest_waiting: age of the oldest claimable
--   task; rate_limits_last_hour: 429s that its runs reported; given_back_last_hour: attempts that could not go on for a
--   rate limit; both are counted to 1000; failures_in_a_row: what the breaker has counted, of breaker_failures (0: it
--   never pauses); estimate_factor and the errors of the estimates (used / estimated - 1) with the number of attempts they
--   come from; run_tpm: tokens per minute of one run that need not wait, where the agent reserves its calls.
-- Errors: LQ404 an unknown agent.
create or replace function lakequeue.agent_status(agents text[] default null)
returns table (
  agent text, model_endpoint text, job_id bigint, paused_at timestamptz, paused_by text, pause_reason text,
  enqueued bigint, waiting bigint, processing bigint, spending bigint, tokens_last_minute bigint, cooldown_until timestamptz,
  oldest_waiting interval, rate_limits_last_hour bigint, given_back_last_hour bigint, failures_in_a_row integer,
  breaker_failures integer, estimate_factor real, estimate_error_p50 real, estimate_error_p95 real, learnt_from integer,
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
    ), live as materialized (
      select l.agent_id, sum(l.tasks) filter (where l.status = 'enqueued') as enqueued,
             sum(l.tasks) filter (where l.status = 'processing') as processing
      from _ledger(v_agent_ids, '{enqueued,processing}', null) l
      group by l.agent_id
    )
    select g.name, e.name, g.job_id, g.paused_at, g.paused_by, g.pause_reason,
           coalesce(l.enqueued, 0)::bigint,
           (select count(*) from tasks t
            where t.status = 'enqueued' and t.retry_at is not null and t.retry_at >= _retries_from() and t.agent_id = g.id),
           coalesce(l.processing, 0)::bigint,
           coalesce(mine.tasks, 0)::bigint, coalesce(mine.tokens, 0)::bigint,
           case when e.cooldown_until > v_now then e.cooldown_until end,
           v_now - (
             select min(o.created_at)
             from _lanes(g.id) s
             cross join lateral generate_series(s.lowest, s.highest) p(priority)
             cross join lateral (
               select t.created_at from tasks t
               where t.agent_id = g.id and t.lane = s.lane and t.priority = p.priority and t.status = 'enqueued' and t.retry_at is null
                 and (t.created_at, t.id) >= (coalesce(s.created_from, '-infinity'), coalesce(s.id_from, 0))
               order by t.created_at, t.id limit 1) o),
           (select count(*)
            from (select from task_events v
                  where v.agent_id = g.id and v.kind = 'rate_limited' and v.at > v_now - interval '1 hour' limit 1000) m),
           (select count(*)
            from (select from task_attempts a
                  where a.agent_id = g.id and a.status = 'rate_limited' and a.ended_at > v_now - interval '1 hour'
                  limit 1000) b),
           coalesce((select k.failures from breaker_books k where k.agent_id = g.id order by k.no desc limit 1), 0),
           g.breaker_failures, g.estimate_factor, learnt.estimate_error_p50, learnt.estimate_error_p95, coalesce(learnt.learnt_from, 0),
           ceil(g.run_input_tpm + g.run_output_tpm)::bigint
    from agents g
    join model_endpoints e on e.id = g.model_endpoint_id
    left join live l on l.agent_id = g.id
    left join lateral (select k.* from learning_books k where k.agent_id = g.id order by k.no desc limit 1) learnt on true
    left join lateral (
      select sum(s.used[1]) as tasks, sum(s.used[2]) as tokens from spending s where s.agent_id = g.id) mine on true
    where g.id = any(v_agent_ids)
    order by g.name;
end $$;

comment on function lakequeue.agent_status(text[]) is
  'How each agent stands now: what waits, what runs, what it spends, rate limits, failures, what was learnt.';
