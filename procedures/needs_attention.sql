-- What somebody should look at now, the worst first. Nothing returned: all is well.
--
-- agents: names, null for all. waits_longer: an agent's oldest claimable task that waits longer than this is told.
-- Returns rows: severity (bad, warn); kind; agent, null where it is about all of them; since; amount; words, from a
--   person or an error. Kinds: breaker, paused, no_worker (tasks are claimable and no worker is alive), worker_lost (in the last hour),
--   failing (a fifth or more of at least 5 tasks of the last hour failed), sweep_errors (last hour), cooldown,
--   oldest_waiting.
-- Errors: LQ404 an unknown agent.
create or replace function lakequeue.needs_attention(agents text[] default null, waits_longer interval default '15 minutes')
returns table (severity text, kind text, agent text, since timestamptz, amount bigint, words text)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
begin
  return query
    with standing as materialized (
      select s.* from agent_status(agents) s
    ), alive as materialized (
      select exists (select from workers w where _alive(w, v_now)) as any
    ), found as (
      select 'bad' as severity, 'breaker' as kind, s.agent, s.paused_at as since, s.failures_in_a_row::bigint as amount,
             s.pause_reason as words, 1 as place
      from standing s where s.paused_by = 'breaker'
      union all
      select 'bad', 'no_worker', null, max(w.heartbeat_at), sum(s.enqueued - s.waiting)::bigint, null, 2
      from (select s.enqueued, s.waiting from standing s where s.paused_at is null and s.enqueued > s.waiting) s
      left join (select max(w.heartbeat_at) as heartbeat_at from workers w) w on true
      where not (select a.any from alive a)
      having count(*) > 0
      union all
      select 'bad', 'failing', p.agent, null, (100 * p.failed_last_hour / (p.completed_last_hour + p.failed_last_hour)), null, 3
      from agent_pace(agents) p
      where p.completed_last_hour + p.failed_last_hour >= 5
        and 5 * p.failed_last_hour >= p.completed_last_hour + p.failed_last_hour
      union all
      select 'bad', 'sweep_errors', null, max(e.at), count(*), (array_agg(e.reason order by e.at desc))[1], 4
      from (select v.at, v.reason from task_events v
            where v.kind = 'sweep_error' and v.at > v_now - interval '1 hour' limit 1000) e
      having count(*) > 0
      union all
      select 'warn', 'worker_lost', null, max(w.stopped_at), count(*), (array_agg(w.name order by w.stopped_at desc))[1], 5
      from workers w
      where w.stopped_at > v_now - interval '1 hour' and w.stopped_at - w.heartbeat_at >= interval '1 minute'
      having count(*) > 0
      union all
      select 'warn', 'paused', s.agent, s.paused_at, s.enqueued, s.pause_reason, 6
      from standing s where s.paused_at is not null and s.paused_by <> 'breaker'
      union all
      select 'warn', 'cooldown', s.agent, s.cooldown_until, s.rate_limits_last_hour, s.model_endpoint, 7
      from standing s where s.cooldown_until is not null and s.paused_at is null
      union all
      select 'warn', 'oldest_waiting', s.agent, v_now - s.oldest_waiting, s.enqueued, null, 8
      from standing s where s.oldest_waiting > waits_longer and s.paused_at is null
    )
    select f.severity, f.kind, f.agent, f.since, f.amount, f.words
    from found f
    order by f.place, f.agent;
end $$;

comment on function lakequeue.needs_attention(text[], interval) is 'What somebody should look at now, the worst first.';
