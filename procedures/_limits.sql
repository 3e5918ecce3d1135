-- Every limit that applies at these endpoints, with what is spent of it: the one truth that dequeue_tasks,
-- reserve_tokens and explain_throttle read. Take the endpoints' locks first, if anything is decided by it, and ask in a
-- later statement: it sees what that one sees.
--
-- endpoints: ids, each once. from_books: take what the books say, an upper bound (see _recount); false: count. at: the end of
--   the window, null for now.
-- Returns a row per endpoint and per agent that has limits: agent_id, null for the endpoint's own; ceilings, by kind (see
--   _kinds), null where there is no limit; used and booked, see _spending, null where the books do not know; raised: see
--   _raised; no: of the page in the books, null if there is none. Attempts that an agent started at an endpoint it has
--   moved away from still count against its own limits.
create or replace function lakequeue._limits(endpoints integer[], from_books boolean, at timestamptz default null)
returns table (
  endpoint_id integer, agent_id integer, ceilings bigint[], used numeric[], booked numeric[], raised numeric[], no bigint)
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := coalesce(at, _now());
  v_unknown constant numeric[] := array_fill(null::numeric, array[5]);  -- as all arrays here, of five
  v_counted integer[] := endpoints || array(
    select distinct f.id
    from agents a cross join unnest(a.former_endpoint_ids) f(id)
    where a.model_endpoint_id = any(endpoints) and f.id <> all(endpoints));
begin
  if from_books then
    return query
      select b.endpoint_id, b.agent_id, b.ceilings,
             case when r.raised = b.raised then b.used else _plus(b.used, _plus(r.raised, b.lowered)) end,
             case when r.raised = b.raised then b.booked else _plus(b.booked, _plus(r.raised, b.lowered)) end,
             r.raised, b.no
      from (
        select k.endpoint_id, k.agent_id, k.ceilings, coalesce(k.used, v_unknown) as used, coalesce(k.booked, v_unknown) as booked,
               k.raised, array[-k.raised[1], -k.raised[2], -k.raised[3], -k.raised[4], -k.raised[5]] as lowered, k.no
        from _booked(endpoints) k) b
      cross join lateral (
        select array[0, coalesce(sum(r.raised[2]), 0), coalesce(sum(r.raised[3]), 0), coalesce(sum(r.raised[4]), 0), 0] as raised
        from _raised(v_counted, v_now) r
        where case when b.agent_id is null then r.endpoint_id = b.endpoint_id else r.agent_id = b.agent_id end) r
      order by b.endpoint_id, b.agent_id nulls first;
    return;
  end if;

  -- What is counted and what was raised, in one snapshot and of one minute: a report is in both or in neither.
  return query
    with limits as materialized (
      select l.* from _limits(endpoints, true, v_now) l
    ), spending as materialized (
      select s.*
      from _spending(v_counted, (
        select bool_or(coalesce(l.ceilings[2], l.ceilings[3], l.ceilings[4], l.ceilings[5]) is not null) from limits l), v_now) s
    )
    select l.endpoint_id, l.agent_id, l.ceilings, s.used, s.booked, l.raised, l.no
    from limits l
    cross join lateral (
      select array[coalesce(sum(s.used[1]), 0), coalesce(sum(s.used[2]), 0), coalesce(sum(s.used[3]), 0),
                   coalesce(sum(s.used[4]), 0), coalesce(sum(s.used[5]), 0)] as used,
             array[coalesce(sum(s.booked[1]), 0), coalesce(sum(s.booked[2]), 0), coalesce(sum(s.booked[3]), 0),
                   coalesce(sum(s.booked[4]), 0), coalesce(sum(s.booked[5]), 0)] as booked
      from spending s
      where case when l.agent_id is null then s.endpoint_id = l.endpoint_id else s.agent_id = l.agent_id end) s
    order by l.endpoint_id, l.agent_id nulls first;
end $$;

comment on function lakequeue._limits(integer[], boolean, timestamptz) is
  'Every limit that applies at these endpoints, with what is spent of it.';
