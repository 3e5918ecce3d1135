-- What is spent at these endpoints (rules 3 and 4), a row per endpoint, agent and kind: tasks, tokens, input_tokens,
-- output_tokens, requests. Read it after taking the endpoints' locks, as a statement of its own.
--
-- used: of tasks, the attempts whose run is not known to have ended. Of the others, what the last 60 seconds hold: an
--   agent that reserves its calls counts with the calls under way or ended within them; any other with its attempts
--   running or ended within them, each by the larger of estimate and used, or by what it used where an ended attempt's
--   usage is complete. An estimate is split into input and output by the agent's output_share.
-- booked: the same, but a running attempt of an agent that reserves counts with its mean rate per minute instead of its
--   calls. That is what dequeue_tasks admits by; the window itself is kept by the calls.
-- with_window: false leaves out the last 60 seconds, where no limit asks for them.
create or replace function lakequeue._spending(endpoints integer[], with_window boolean)
returns table (endpoint_id integer, agent_id integer, kind text, used numeric, booked numeric)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_window_start timestamptz := _now() - interval '60 seconds';
begin
  return query
    with attempts as (
      select s.endpoint_id, s.agent_id, true as running, false as settled, s.estimated_tokens, s.input_tokens, s.output_tokens
      from task_attempts s
      where s.endpoint_id = any(endpoints) and s.run_ended_at is null
      union all
      select s.endpoint_id, s.agent_id, false, s.usage_complete, s.estimated_tokens, s.input_tokens, s.output_tokens
      from task_attempts s
      where with_window and s.endpoint_id = any(endpoints) and s.run_ended_at > v_window_start
    ), sized as (
      select a.endpoint_id, a.agent_id, a.running, g.reserves_calls, d.input_tokens as input, d.output_tokens as output,
             case when a.settled then coalesce(a.input_tokens, 0)
                  else greatest(d.input_tokens, a.input_tokens) end as input_tokens,
             case when a.settled then coalesce(a.output_tokens, 0)
                  else greatest(d.output_tokens, a.output_tokens) end as output_tokens,
             case when a.settled then coalesce(a.input_tokens, 0) + coalesce(a.output_tokens, 0)
                  else greatest(d.tokens, coalesce(a.input_tokens, 0) + coalesce(a.output_tokens, 0)) end as tokens,
             d.tokens as rate
      from attempts a
      join agents g on g.id = a.agent_id
      cross join lateral _demand(g, a.estimated_tokens) d
    ), entries as (
      -- agents that do not reserve: attempts hold the window
      select s.endpoint_id, s.agent_id, s.running::integer as tasks, s.tokens, s.input_tokens, s.output_tokens,
             1 as requests, true as used, true as booked
      from sized s
      where not s.reserves_calls
      union all
      -- agents that do: running attempts are booked by their rate ...
      select s.endpoint_id, s.agent_id, 0, s.rate, s.input, s.output, 1, false, true
      from sized s
      where s.reserves_calls and s.running
      union all
      select s.endpoint_id, s.agent_id, 1, 0, 0, 0, 0, true, true
      from sized s
      where s.reserves_calls and s.running
      union all
      -- ... and calls hold the window
      select c.endpoint_id, c.agent_id, 0, c.input_tokens + c.output_tokens, c.input_tokens, c.output_tokens, 1, true, false
      from model_calls c
      where with_window and c.endpoint_id = any(endpoints) and c.granted_at is not null
        and c.ended_at is null
      union all
      select c.endpoint_id, c.agent_id, 0, c.input_tokens + c.output_tokens, c.input_tokens, c.output_tokens, 1, true, false
      from model_calls c
      where with_window and c.endpoint_id = any(endpoints) and c.granted_at is not null
        and c.ended_at > v_window_start
    )
    select e.endpoint_id, e.agent_id, k.kind,
           coalesce(sum(k.amount) filter (where e.used), 0), coalesce(sum(k.amount) filter (where e.booked), 0)
    from entries e
    cross join lateral (values ('tasks', e.tasks::numeric), ('tokens', e.tokens), ('input_tokens', e.input_tokens),
                               ('output_tokens', e.output_tokens), ('requests', e.requests)) k(kind, amount)
    group by e.endpoint_id, e.agent_id, k.kind;
end $$;

comment on function lakequeue._spending(integer[], boolean) is
  'What is spent at these endpoints now, per endpoint, agent and kind.';
