-- What an agent's last 100 completed tasks teach (at least 20, else nothing):
-- estimate_factor: the 95th percentile of used tokens over the bare estimate (tokens_per_task + pages *
--   tokens_per_page), so that one outlier moves nothing and 95 % stay within their estimate; from 0.01 to 100.
-- estimate_error_p50, _p95: of used over estimated, minus 1, as they were claimed.
-- run_tpm: median tokens per minute of a run while it need not wait for reserve_tokens, for agents that reserve.
-- Called by sweep_leases, an agent at most once a minute.
create or replace function lakequeue._learn(agent_id integer)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
begin
  update agents g
  set learnt_at = v_now,
      learnt_from = l.attempts,
      estimate_factor = case when l.attempts >= 20 then least(greatest(l.factor, 0.01), 100) else g.estimate_factor end,
      estimate_error_p50 = case when l.attempts >= 20 then l.error_p50 else g.estimate_error_p50 end,
      estimate_error_p95 = case when l.attempts >= 20 then l.error_p95 else g.estimate_error_p95 end,
      run_tpm = case when l.attempts >= 20 then greatest(l.run_tpm, 1) else g.run_tpm end
  from (
    select count(*)::integer as attempts,
           percentile_cont(0.95) within group (order by u.used / u.bare) as factor,
           percentile_cont(0.5) within group (order by u.used / u.estimated - 1) as error_p50,
           percentile_cont(0.95) within group (order by u.used / u.estimated - 1) as error_p95,
           percentile_cont(0.5) within group (order by u.used * 60 / u.seconds)::bigint as run_tpm
    from (
      select (a.input_tokens + a.output_tokens)::double precision as used,
             greatest(a.estimated_tokens, 1) as estimated,
             greatest(_bare_estimate(p, t.page_count, t.document_bytes), 1) as bare,
             greatest(extract(epoch from a.ended_at - a.started_at - coalesce(w.waited, '0')), 1)::double precision as seconds
      from agents p
      cross join lateral (
        select n.* from tasks n
        where n.agent_id = p.id and n.status = 'completed' and n.finished_at is not null
        order by n.finished_at desc, n.id desc limit 100) t
      join task_attempts a on a.task_id = t.id and a.status = 'succeeded'
      left join lateral (
        select sum(c.granted_at - c.asked_at) as waited from model_calls c where c.attempt_id = a.id) w on true
      where p.id = _learn.agent_id and a.usage_complete and a.input_tokens + a.output_tokens > 0
    ) u
  ) l
  where g.id = _learn.agent_id;
end $$;

comment on function lakequeue._learn(integer) is 'Learns estimates and run speed from an agent''s last completed tasks.';
