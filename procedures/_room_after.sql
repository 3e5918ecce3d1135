-- How long until so much of a limit's window has left it; null where that depends on what is still under way.
--
-- endpoint_id: the endpoint; agent_id: of an agent's own limit, else null; kind: tokens, input_tokens, output_tokens or
-- requests; missing: how much must leave.
create or replace function lakequeue._room_after(endpoint_id integer, agent_id integer, kind text, missing numeric)
returns interval
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_leaves_at timestamptz;
begin
  select min(r.leaves_at) into v_leaves_at
  from (
    select w.leaves_at, sum(w.amount) over (order by w.leaves_at) as gone
    from (
      select c.ended_at + interval '60 seconds' as leaves_at, _call_amount(kind, c.input_tokens, c.output_tokens) as amount
      from model_calls c
      where c.endpoint_id = _room_after.endpoint_id and c.ended_at > v_now - interval '60 seconds'
        and (_room_after.agent_id is null or c.agent_id = _room_after.agent_id)
      union all
      select a.run_ended_at + interval '60 seconds',
             case when kind = 'tokens' and not a.usage_complete
                  then greatest(a.estimated_tokens, coalesce(a.input_tokens, 0) + coalesce(a.output_tokens, 0))
                  else _call_amount(kind, coalesce(a.input_tokens, 0), coalesce(a.output_tokens, 0)) end
      from task_attempts a
      where a.endpoint_id = _room_after.endpoint_id and a.run_ended_at > v_now - interval '60 seconds'
        and not a.reserves_calls
        and (_room_after.agent_id is null or a.agent_id = _room_after.agent_id)
    ) w
  ) r
  where r.gone >= missing;
  return v_leaves_at - v_now;
end $$;

comment on function lakequeue._room_after(integer, integer, text, numeric) is
  'How long until so much of a limit''s window has left it.';
