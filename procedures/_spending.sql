-- The count behind every limit (rules 3 and 4): what is spent at these endpoints, per endpoint and agent. Read it after
-- taking the endpoints' locks, in a statement of its own; it sees what that statement sees.
--
-- used, by kind (see _kinds): of tasks, the attempts whose run is not known to have ended. Of the others, what the last
--   60 seconds hold: the calls of attempts that reserve them, under way or ended within 60 seconds; and all other
--   attempts that run or ended within them, by the larger of estimate and used, or by what they used where an ended
--   one's usage is complete. An estimate is split into input and output by the agent's output_share.
-- booked: what those that run now will probably use in the next minute. As used, but of attempts that reserve what a run
--   of their agent uses in a minute (_demand), and the calls that wait, so that no task starts where others wait.
-- with_window: false leaves all but the tasks unknown, where no limit asks for more. at: the end of the
--   window, null for now.
create or replace function lakequeue._spending(endpoints integer[], with_window boolean, at timestamptz default null)
returns table (endpoint_id integer, agent_id integer, used numeric[], booked numeric[])
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := coalesce(at, _now());
  v_window_start timestamptz := v_now - interval '60 seconds';
begin
  if not with_window then
    return query
      select a.endpoint_id, a.agent_id, array[count(*), null, null, null, null]::numeric[],
             array[count(*), null, null, null, null]::numeric[]
      from _running(endpoints) a
      group by a.endpoint_id, a.agent_id;
    return;
  end if;

  return query
    with attempts as (
      select a.endpoint_id, a.agent_id, a.reserves_calls, 1 as tasks, false as settled,
             a.estimated_tokens, coalesce(a.input_tokens, 0) as input, coalesce(a.output_tokens, 0) as output
      from _running(endpoints) a
      union all
      select a.endpoint_id, a.agent_id, false, 0, a.usage_complete,
             a.estimated_tokens, coalesce(a.input_tokens, 0), coalesce(a.output_tokens, 0)
      from task_attempts a
      where a.endpoint_id = any(endpoints) and a.run_ended_at > v_window_start and not a.reserves_calls
    ), calls as (
      select c.endpoint_id, c.agent_id, c.input_tokens as input, c.output_tokens as output, c.granted_at is not null as granted
      from _open_calls(endpoints) c
      where c.granted_at is not null or _still_asks(c, v_now)
      union all
      select c.endpoint_id, c.agent_id, c.input_tokens, c.output_tokens, true
      from model_calls c
      where c.endpoint_id = any(endpoints) and c.ended_at > v_window_start
    ), paces as (
      select r.endpoint_id, r.agent_id, r.runs, _demand(g, e, r.estimated_tokens) as demand
      from (
        select a.endpoint_id, a.agent_id, a.estimated_tokens, count(*) as runs
        from attempts a
        where a.reserves_calls
        group by a.endpoint_id, a.agent_id, a.estimated_tokens) r
      join agents g on g.id = r.agent_id
      join model_endpoints e on e.id = r.endpoint_id
    ), entries as (
      select a.endpoint_id, a.agent_id, a.tasks,
             case when a.settled then a.input + a.output else greatest(a.estimated_tokens, a.input + a.output) end as tokens,
             case when a.settled then a.input else greatest(a.estimated_tokens - s.output, a.input) end as input,
             case when a.settled then a.output else greatest(s.output, a.output) end as output,
             1 as requests, true as used, true as booked
      from attempts a
      join agents g on g.id = a.agent_id
      cross join lateral (select ceil(a.estimated_tokens * g.output_share::numeric) as output) s
      where not a.reserves_calls
      union all
      select c.endpoint_id, c.agent_id, 0, c.input + c.output, c.input, c.output, 1, c.granted, not c.granted
      from calls c
      union all
      select p.endpoint_id, p.agent_id, p.runs, 0, 0, 0, 0, true, false
      from paces p
      union all
      select p.endpoint_id, p.agent_id, p.runs, p.runs * p.demand[2], p.runs * p.demand[3], p.runs * p.demand[4],
             p.runs * p.demand[5], false, true
      from paces p
    )
    select e.endpoint_id, e.agent_id,
           array[sum(e.tasks) filter (where e.used), sum(e.tokens) filter (where e.used),
                 sum(e.input) filter (where e.used), sum(e.output) filter (where e.used),
                 sum(e.requests) filter (where e.used)],
           array[sum(e.tasks) filter (where e.booked), sum(e.tokens) filter (where e.booked),
                 sum(e.input) filter (where e.booked), sum(e.output) filter (where e.booked),
                 sum(e.requests) filter (where e.booked)]
    from entries e
    group by e.endpoint_id, e.agent_id;
end $$;

comment on function lakequeue._spending(integer[], boolean, timestamptz) is
  'The count behind every limit: what is spent at these endpoints, per endpoint and agent.';
