-- What is spent at these endpoints (rules 3 and 4), a row per endpoint, agent and kind (see _kinds). Read it after taking
-- the endpoints' locks, as a statement of its own.
--
-- used: of tasks, the attempts whose run is not known to have ended. Of the others, what the last 60 seconds hold: the
--   calls of attempts that reserve them, under way or ended within 60 seconds; and all other attempts that run or ended
--   within them, by the larger of estimate and used, or by what they used where an ended one's usage is complete. An
--   estimate is split into input and output by the agent's output_share.
-- booked: what those that run now will probably use in the next minute. As used, but of attempts that reserve: in their
--   first minute _demand or their calls, whichever is more, later their calls; calls that wait are included, so that no
--   further task starts where tasks wait already.
-- with_window: false leaves out all but the tasks, where no limit asks for more.
create or replace function lakequeue._spending(endpoints integer[], with_window boolean)
returns table (endpoint_id integer, agent_id integer, kind text, used numeric, booked numeric)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_window_start timestamptz := v_now - interval '60 seconds';
begin
  if not with_window then
    return query
      select a.endpoint_id, a.agent_id, 'tasks'::text, count(*)::numeric, count(*)::numeric
      from task_attempts a
      where a.endpoint_id = any(endpoints) and a.run_ended_at is null
      group by a.endpoint_id, a.agent_id;
    return;
  end if;

  return query
    with attempts as (
      select a.id, a.endpoint_id, a.agent_id, a.reserves_calls, a.started_at, true as running, false as settled,
             a.estimated_tokens, a.input_tokens, a.output_tokens
      from task_attempts a
      where a.endpoint_id = any(endpoints) and a.run_ended_at is null
      union all
      select a.id, a.endpoint_id, a.agent_id, false, a.started_at, false, a.usage_complete,
             a.estimated_tokens, a.input_tokens, a.output_tokens
      from task_attempts a
      where a.endpoint_id = any(endpoints) and a.run_ended_at > v_window_start and not a.reserves_calls
    ), totals as (
      select a.endpoint_id, a.agent_id, a.running::integer as tasks,
             case when a.settled then s.used_input + s.used_output
                  else greatest(a.estimated_tokens, s.used_input + s.used_output) end as tokens,
             case when a.settled then s.used_input else greatest(a.estimated_tokens - s.output, s.used_input) end as input_tokens,
             case when a.settled then s.used_output else greatest(s.output, s.used_output) end as output_tokens
      from attempts a
      join agents g on g.id = a.agent_id
      cross join lateral (
        select ceil(a.estimated_tokens * g.output_share::numeric) as output,
               coalesce(a.input_tokens, 0) as used_input, coalesce(a.output_tokens, 0) as used_output) s
      where not a.reserves_calls
    ), calls as materialized (
      select c.endpoint_id, c.agent_id, c.attempt_id, c.input_tokens, c.output_tokens, true as granted
      from model_calls c
      where c.endpoint_id = any(endpoints) and c.granted_at is not null and c.ended_at is null
      union all
      select c.endpoint_id, c.agent_id, c.attempt_id, c.input_tokens, c.output_tokens, true
      from model_calls c
      where c.endpoint_id = any(endpoints) and c.granted_at is not null and c.ended_at > v_window_start
      union all
      select c.endpoint_id, c.agent_id, c.attempt_id, c.input_tokens, c.output_tokens, false
      from model_calls c
      where c.endpoint_id = any(endpoints) and c.granted_at is null and c.seen_at > v_now - interval '10 seconds'
    ), asked as (
      select c.attempt_id, sum(c.input_tokens) as input_tokens, sum(c.output_tokens) as output_tokens, count(*) as requests
      from calls c
      group by c.attempt_id
    ), runs as (
      select a.endpoint_id, a.agent_id,
             greatest(d.demand[2], coalesce(c.input_tokens + c.output_tokens, 0)) as tokens,
             greatest(d.demand[3], coalesce(c.input_tokens, 0)) as input_tokens,
             greatest(d.demand[4], coalesce(c.output_tokens, 0)) as output_tokens,
             greatest(d.demand[5], coalesce(c.requests, 0)) as requests
      from attempts a
      left join asked c on c.attempt_id = a.id
      left join lateral (
        select _demand(g, e, a.estimated_tokens) as demand
        from agents g, model_endpoints e
        where g.id = a.agent_id and e.id = a.endpoint_id and a.started_at > v_window_start) d on true
      where a.reserves_calls
    ), entries as (
      select t.endpoint_id, t.agent_id, t.tasks, t.tokens, t.input_tokens, t.output_tokens, 1::numeric as requests,
             true as used, true as booked
      from totals t
      union all
      select c.endpoint_id, c.agent_id, 0, c.input_tokens + c.output_tokens, c.input_tokens, c.output_tokens, 1, true, false
      from calls c
      where c.granted
      union all
      select a.endpoint_id, a.agent_id, 1, 0, 0, 0, 0, true, true
      from attempts a
      where a.reserves_calls
      union all
      select r.endpoint_id, r.agent_id, 0, r.tokens, r.input_tokens, r.output_tokens, r.requests, false, true
      from runs r
    ), sums as (
      select e.endpoint_id, e.agent_id,
             sum(e.tasks) as tasks,
             coalesce(sum(e.tokens) filter (where e.used), 0) as used_tokens,
             coalesce(sum(e.input_tokens) filter (where e.used), 0) as used_input,
             coalesce(sum(e.output_tokens) filter (where e.used), 0) as used_output,
             coalesce(sum(e.requests) filter (where e.used), 0) as used_requests,
             coalesce(sum(e.tokens) filter (where e.booked), 0) as booked_tokens,
             coalesce(sum(e.input_tokens) filter (where e.booked), 0) as booked_input,
             coalesce(sum(e.output_tokens) filter (where e.booked), 0) as booked_output,
             coalesce(sum(e.requests) filter (where e.booked), 0) as booked_requests
      from entries e
      group by e.endpoint_id, e.agent_id
    )
    select s.endpoint_id, s.agent_id, k.kind, k.used, k.booked
    from sums s
    cross join lateral (
      values ('tasks', s.tasks::numeric, s.tasks::numeric), ('tokens', s.used_tokens, s.booked_tokens),
             ('input_tokens', s.used_input, s.booked_input), ('output_tokens', s.used_output, s.booked_output),
             ('requests', s.used_requests, s.booked_requests)) k(kind, used, booked);
end $$;

comment on function lakequeue._spending(integer[], boolean) is
  'What is spent at these endpoints now, per endpoint, agent and kind.';
