-- Chooses what a dequeue may claim, and locks it: the tasks of the served agents, merged by priority, created_at and
-- id, as far as every limit has room.
--
-- What fits: see _has_room. A task that fits no token or request limit is passed over by later ones that do, at most 64
-- of its agent (rule 5); from the first time on it is noted since when. Once that is longer ago than the endpoint's
-- max_passed_over, nothing of its priority or a lower one that shares the limit is admitted until it fits, whichever
-- agents the dequeue serves.
--
-- exclusive, shared: endpoints whose throttle lock the caller holds; one held shared is left out if it has limits now.
-- only_agents: ids of the agents served, null for all. wanted: most tasks. fair: at most an equal share each.
-- Returns the ids of the locked tasks.
-- Locks: the tasks returned, and those passed over for the first time; locked ones are skipped.
create or replace function lakequeue._admit(
  exclusive integer[], shared integer[], only_agents integer[], wanted integer, fair boolean)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_share integer;
  v_served integer[];                      -- agents that may be admitted
  v_windowed integer[];                    -- endpoints with limits per minute
  v_common integer[];                      -- of these, those of several agents
  -- the limits, an element each
  v_endpoints integer[];
  v_agents integer[];                      -- null where the limit is the endpoint's
  v_kinds integer[];                       -- places in _kinds()
  v_ceilings numeric[];
  v_used_before numeric[];
  v_booked_before numeric[];
  v_used numeric[];
  v_booked numeric[];
  -- the course of the choice
  v_task record;
  v_overdue boolean;
  v_place boolean;
  v_room boolean;                          -- whether the agent's own limits per minute have room
  v_endpoint_room boolean;                 -- whether the endpoint's have
  i integer;                               -- of a limit
  v_position integer;
  v_look_further boolean;
  v_admitted bigint[];
  v_admitted_agents integer[];
  v_admitted_endpoints integer[];
  v_admitted_at integer[];                 -- positions in the order
  v_closed_endpoints integer[];            -- a task has been passed over for too long: nothing follows it
  v_closed_agents integer[];
  v_misfits bigint[];
  v_misfit_endpoints integer[];
  v_misfit_agents integer[];               -- null where the endpoint's limit binds
  v_misfits_at integer[];
begin
  -- Limits are read under the lock.
  select array_agg(l.endpoint_id), array_agg(l.agent_id), array_agg(array_position(_kinds(), l.kind)),
         array_agg(l.ceiling::numeric), array_agg(l.used), array_agg(l.booked)
  into v_endpoints, v_agents, v_kinds, v_ceilings, v_used_before, v_booked_before
  from _limits(exclusive || shared) l;
  v_endpoints := coalesce(v_endpoints, '{}'::integer[]);
  v_windowed := array(select u.endpoint_id from unnest(v_endpoints, v_kinds) u(endpoint_id, kind) where u.kind > 1);
  v_common := array(
    select a.model_endpoint_id from agents a where a.model_endpoint_id = any(v_windowed)
    group by a.model_endpoint_id having count(*) > 1);

  v_served := array(
    select a.id
    from agents a
    join model_endpoints e on e.id = a.model_endpoint_id
    where (e.id = any(exclusive) or (e.id = any(shared) and e.id <> all(v_endpoints)))
      and (only_agents is null or a.id = any(only_agents))
      and a.paused_at is null
      and coalesce(e.cooldown_until <= v_now, true)
      and _has_claimable(a.id));
  if v_served = '{}' then
    return '{}'::bigint[];
  end if;
  v_share := case when fair then ceil(wanted::numeric / cardinality(v_served)) else wanted end;

  -- Only if something does not fit is it worth looking further ahead, or where one agent's tasks may pass another's.
  <<looks>>
  for v_look_ahead in 0 .. 64 by 64 loop
    v_used := v_used_before;
    v_booked := v_booked_before;
    v_position := 0;
    v_look_further := false;
    v_admitted := '{}'; v_admitted_agents := '{}'; v_admitted_endpoints := '{}'; v_admitted_at := '{}';
    v_closed_endpoints := '{}'; v_closed_agents := '{}';
    v_misfits := '{}'; v_misfit_endpoints := '{}'; v_misfit_agents := '{}'; v_misfits_at := '{}';

    <<candidates>>
    for v_task in
      select c.id, c.passed_over_at, a.id as agent_id, e.id as endpoint_id, e.max_passed_over, a.reserves_calls,
             a.id = any(v_served) as served, _demand(a, e, _estimate(a, c.page_count, c.document_bytes)) as demand
      from agents a
      join model_endpoints e on e.id = a.model_endpoint_id
      -- Where a limit applies nobody else can claim, so that looking ahead need not lock.
      cross join lateral _candidates(a.id, case when e.id = any(v_common) then v_share + 64
                                               when e.id = any(v_windowed) then v_share + v_look_ahead else v_share end,
                                     e.id <> all(v_endpoints)) c
      where a.id = any(v_served)
         or (e.id = any(v_windowed) and a.paused_at is null)  -- not served here, yet perhaps passed over
      order by c.priority desc, c.created_at, c.id
    loop
      v_position := v_position + 1;
      v_overdue := coalesce(v_task.passed_over_at <= v_now - v_task.max_passed_over, false);
      continue when v_task.endpoint_id = any(v_closed_endpoints) or v_task.agent_id = any(v_closed_agents)
        or (not v_overdue and cardinality(array_positions(v_admitted_agents, v_task.agent_id)) >= v_share);

      v_place := true; v_room := true; v_endpoint_room := true;
      foreach i in array array_positions(v_endpoints, v_task.endpoint_id) loop
        if v_agents[i] <> v_task.agent_id then
          continue;
        elsif v_kinds[i] = 1 then
          v_place := v_place and v_used[i] < v_ceilings[i];
        elsif not _has_room(v_task.reserves_calls, v_used[i], v_booked[i], v_ceilings[i], v_task.demand[v_kinds[i]]) then
          v_room := false;
          v_endpoint_room := v_endpoint_room and v_agents[i] is not null;
        end if;
      end loop;

      if not v_room then
        if not v_overdue then
          v_misfits := v_misfits || v_task.id;
          v_misfit_endpoints := v_misfit_endpoints || v_task.endpoint_id;
          v_misfit_agents := v_misfit_agents || case when v_endpoint_room then v_task.agent_id end;
          v_misfits_at := v_misfits_at || v_position;
          if v_task.reserves_calls then
            v_closed_agents := v_closed_agents || v_task.agent_id;  -- none of its tasks fits better than another
          else
            v_look_further := true;
          end if;
        elsif v_endpoint_room then
          v_closed_agents := v_closed_agents || v_task.agent_id;
        else
          v_closed_endpoints := v_closed_endpoints || v_task.endpoint_id;
        end if;
      elsif v_place and (v_task.served or v_overdue) then
        -- Room is kept for one that has been passed over for too long, also if this dequeue cannot take it.
        foreach i in array array_positions(v_endpoints, v_task.endpoint_id) loop
          continue when v_agents[i] <> v_task.agent_id;
          v_booked[i] := v_booked[i] + v_task.demand[v_kinds[i]];
          if v_kinds[i] = 1 or not v_task.reserves_calls then
            v_used[i] := v_used[i] + v_task.demand[v_kinds[i]];
          end if;
        end loop;
        continue when not v_task.served;
        v_admitted := v_admitted || v_task.id;
        v_admitted_agents := v_admitted_agents || v_task.agent_id;
        v_admitted_endpoints := v_admitted_endpoints || v_task.endpoint_id;
        v_admitted_at := v_admitted_at || v_position;
        exit candidates when cardinality(v_admitted) >= wanted;
      end if;
    end loop;
    exit looks when not v_look_further or cardinality(v_admitted) >= wanted;
  end loop;

  v_misfits := array(
    select t.id
    from tasks t
    where t.passed_over_at is null
      and t.id = any(array(
        select m.id
        from unnest(v_misfits, v_misfit_endpoints, v_misfit_agents, v_misfits_at) m(id, endpoint_id, agent_id, at)
        where exists (
          select from unnest(v_admitted_endpoints, v_admitted_agents, v_admitted_at) a(endpoint_id, agent_id, at)
          where a.at > m.at and a.endpoint_id = m.endpoint_id and (m.agent_id is null or a.agent_id = m.agent_id))))
    order by t.id
    for no key update skip locked);
  update tasks t set passed_over_at = v_now where t.id = any(v_misfits);

  -- What else must hold is asked of the locked rows: the planner would read a whole index for it.
  return array(
    select l.id
    from (select t.id, t.status, t.retry_at from tasks t
          where t.id = any(v_admitted) order by t.id offset 0 for no key update skip locked) l
    where l.status = 'enqueued' and l.retry_at is null);
end $$;

comment on function lakequeue._admit(integer[], integer[], integer[], integer, boolean) is
  'Chooses and locks the tasks that fit every limit, in rule 2''s order.';
