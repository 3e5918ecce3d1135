-- What an agent's work has taught. Called by sweep_leases, for each agent once a minute at most.
--
-- From its last 100 completed tasks, of which at least 20 must say completely what they used:
--   estimate_factor: the 95th percentile of used tokens over the bare estimate (tokens_per_task + pages *
--   tokens_per_page) and a tenth more, so that one outlier moves nothing and hardly a task exceeds its estimate; from
--   0.01 to 100.
--   estimate_error_p50, _p95: of used over estimated, minus 1, as they were claimed.
-- From the model calls of the last minute, if they come from at least one minute of runs: run_input_tpm, run_output_tpm,
--   run_rpm: what its runs used, over the time they ran and did not wait for reserve_tokens; the mean of that and what
--   was known before (_smoothed). Waiting is left out, or a crowded endpoint would make runs look slow, and slow runs admit more.
-- All but the errors stand in the agent's row, of which each change leaves a version that every claim passes where a snapshot
-- is held. So a figure that differs from what is known by no more than a twentieth changes nothing (the factor has a tenth to
-- spare). When it learnt, and the errors, stand in learning_books.
-- The last tasks are read in the order of the index tasks_finished, whatever the statistics say.
-- Locks: the agent's row, if it is free (else another time), then its newest book.
create or replace function lakequeue._learn(agent_id integer)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_sort = off
set enable_bitmapscan = off
as $$
declare
  v_now timestamptz := _now();
  v_window_start timestamptz := v_now - interval '60 seconds';
  v_agent agents;
  v_endpoints integer[];
  v_used record;
  v_pace record;
  v_book learning_books;
begin
  select a.* into v_agent from agents a where a.id = _learn.agent_id for no key update skip locked;
  if not found then
    return;
  end if;

  v_endpoints := v_agent.model_endpoint_id || v_agent.former_endpoint_ids;
  select count(*)::integer as attempts,
         least(greatest(1.1 * percentile_cont(0.95) within group (order by u.used / u.bare), 0.01), 100) as factor,
         percentile_cont(0.5) within group (order by u.used / u.estimated - 1) as error_p50,
         percentile_cont(0.95) within group (order by u.used / u.estimated - 1) as error_p95
  into v_used
  from (
    select a.used, greatest(a.estimated_tokens, 1) as estimated,
           greatest(_bare_estimate(v_agent, t.page_count, t.document_bytes), 1)::double precision as bare
    from (
      select n.id, n.page_count, n.document_bytes
      from tasks n
      where n.agent_id = _learn.agent_id and n.status = 'completed' and n.finished_at is not null
      order by n.finished_at desc, n.id desc limit 100) t
    cross join lateral (
      select (s.input_tokens + s.output_tokens)::double precision as used, s.estimated_tokens
      from task_attempts s
      where s.task_id = t.id and s.status = 'succeeded' and s.usage_complete
      limit 1) a
    where a.used > 0
  ) u;

  select sum(r.input_tokens) * 60 / sum(r.seconds) as input_tpm, sum(r.output_tokens) * 60 / sum(r.seconds) as output_tpm,
         sum(r.requests) * 60 / sum(r.seconds) as rpm, sum(r.seconds) as seconds, sum(r.requests) as requests
  into v_pace
  from (
    select c.input_tokens, c.output_tokens, c.requests,
           greatest(extract(epoch from a.alive - coalesce(c.waited, '0')), 0.05 * extract(epoch from a.alive))::real as seconds
    from (
      select s.id, coalesce(s.run_ended_at, v_now) - greatest(s.started_at, v_window_start) as alive
      from (
        select r.* from _running(v_endpoints) r
        union all
        select r.* from task_attempts r where r.endpoint_id = any(v_endpoints) and r.run_ended_at > v_window_start
        offset 0  -- or the planner would read all of an index on the status instead
      ) s
      where s.agent_id = v_agent.id and s.reserves_calls and s.status in ('running', 'succeeded')
        and s.started_at < coalesce(s.run_ended_at, v_now)
    ) a
    cross join lateral (
      select sum(m.input_tokens) filter (where m.ended_at > v_window_start) as input_tokens,
             sum(m.output_tokens) filter (where m.ended_at > v_window_start) as output_tokens,
             count(*) filter (where m.ended_at > v_window_start) as requests,
             sum(greatest(coalesce(m.granted_at, v_now) - greatest(m.asked_at, v_window_start), '0')) as waited
      from model_calls m
      where m.attempt_id = a.id) c
  ) r;

  if v_used.attempts >= 20 and abs(v_used.factor - v_agent.estimate_factor) > v_agent.estimate_factor / 20 then
    v_agent.estimate_factor := v_used.factor;
  end if;
  if v_pace.seconds >= 60 and v_pace.requests > 0 then
    v_agent.run_input_tpm := _smoothed(v_agent.run_input_tpm, v_pace.input_tpm);
    v_agent.run_output_tpm := _smoothed(v_agent.run_output_tpm, v_pace.output_tpm);
    v_agent.run_rpm := _smoothed(v_agent.run_rpm, v_pace.rpm);
  end if;
  update agents g
  set estimate_factor = v_agent.estimate_factor,
      run_input_tpm = v_agent.run_input_tpm, run_output_tpm = v_agent.run_output_tpm, run_rpm = v_agent.run_rpm
  where g.id = v_agent.id
    and (g.estimate_factor, g.run_input_tpm, g.run_output_tpm, g.run_rpm)
      is distinct from (v_agent.estimate_factor, v_agent.run_input_tpm, v_agent.run_output_tpm, v_agent.run_rpm);

  select k.* into v_book from learning_books k where k.agent_id = v_agent.id order by k.no desc limit 1;
  v_book.learnt_at := v_now;
  v_book.learnt_from := v_used.attempts;
  if v_used.attempts >= 20 then
    v_book.estimate_error_p50 := v_used.error_p50;
    v_book.estimate_error_p95 := v_used.error_p95;
  end if;
  if v_book.no is null then
    insert into learning_books (agent_id, learnt_at, learnt_from, estimate_error_p50, estimate_error_p95)
    values (v_agent.id, v_book.learnt_at, v_book.learnt_from, v_book.estimate_error_p50, v_book.estimate_error_p95);
  else
    update learning_books k
    set no = k.no + 1, learnt_at = v_book.learnt_at, learnt_from = v_book.learnt_from,
        estimate_error_p50 = v_book.estimate_error_p50, estimate_error_p95 = v_book.estimate_error_p95
    where k.agent_id = v_agent.id and k.no = v_book.no;
  end if;
end $$;

comment on function lakequeue._learn(integer) is 'Learns estimates from an agent''s last completed tasks, and the pace of its runs.';
