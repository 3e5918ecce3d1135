-- Chooses what a dequeue may claim, and locks it: the tasks of the served agents, merged by priority, created_at and
-- id, as far as every limit has room.
--
-- A task that fits no token or request limit is passed over by later ones that do, at most 64 of its agent (rule 5): from
-- the first time on it is noted since when. Once that is longer ago than the endpoint's max_passed_over, nothing of its
-- priority or a lower one is admitted at the endpoint until it fits. A task larger than a limit is admitted when nothing
-- else is spent of it: it runs alone and paces itself (rule 4c).
--
-- exclusive, shared: endpoints whose throttle lock the caller holds; one held shared is passed over if it has limits
--   now. only_agents: ids of the agents served, null for all. wanted: most tasks. fair: at most an equal share each.
-- Returns the ids of the locked tasks.
-- Locks: the tasks returned; locked ones are skipped.
create or replace function lakequeue._admit(
  exclusive integer[], shared integer[], only_agents integer[], wanted integer, fair boolean)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_share integer;
  v_agent_ids integer[];
  v_limited integer[];             -- endpoints with limits
  v_windowed integer[];            -- of these, with limits per minute
  -- the limits, an element each
  v_endpoints integer[];
  v_agents integer[];
  v_kinds text[];
  v_used numeric[];                -- what is spent now, of the window and as booked: the larger binds
  v_ceilings numeric[];
  -- the course of the choice
  v_task record;
  v_demand numeric;
  v_misfit text;
  v_closed integer[] := '{}'::integer[];   -- endpoints where nothing more may pass
  v_waiting jsonb := '{}'::jsonb;          -- endpoint: tasks that did not fit, so far passed by nobody
  v_passed bigint[] := '{}'::bigint[];
  v_taken jsonb := '{}'::jsonb;            -- agent: tasks admitted
  v_admitted bigint[] := '{}'::bigint[];
begin
  -- Limits are read under the lock.
  select array_agg(l.endpoint_id), array_agg(l.agent_id), array_agg(l.kind), array_agg(greatest(l.used, l.booked)),
         array_agg(l.ceiling::numeric)
  into v_endpoints, v_agents, v_kinds, v_used, v_ceilings
  from _limits(exclusive || shared) l;
  v_limited := coalesce(v_endpoints, '{}'::integer[]);
  v_windowed := array(select u.endpoint_id from unnest(v_endpoints, v_kinds) u(endpoint_id, kind) where u.kind <> 'tasks');

  v_agent_ids := array(
    select a.id
    from agents a
    join model_endpoints e on e.id = a.model_endpoint_id
    where (e.id = any(exclusive) or (e.id = any(shared) and e.id <> all(v_limited)))
      and (only_agents is null or a.id = any(only_agents))
      and a.paused_at is null
      and coalesce(e.cooldown_until <= v_now, true)
      and _has_claimable(a.id));
  if v_agent_ids = '{}' then
    return '{}'::bigint[];
  end if;
  v_share := case when fair then ceil(wanted::numeric / cardinality(v_agent_ids)) else wanted end;

  <<candidates>>
  for v_task in
    select c.id, c.priority, c.created_at, c.passed_over_at, a.id as agent_id, e.id as endpoint_id, e.max_passed_over,
           d.tokens, d.input_tokens, d.output_tokens
    from agents a
    join model_endpoints e on e.id = a.model_endpoint_id
    -- Where a limit applies nobody else can claim, so that looking ahead need not lock.
    cross join lateral _candidates(a.id, case when e.id = any(v_windowed) then v_share + 64 else v_share end,
                                   e.id <> all(v_limited)) c
    cross join lateral _demand(a, c.estimated_tokens) d
    where a.id = any(v_agent_ids)
    order by c.priority desc, c.created_at, c.id
  loop
    continue when v_task.endpoint_id = any(v_closed);
    continue when coalesce((v_taken ->> v_task.agent_id::text)::integer, 0) >= v_share;

    v_misfit := null;
    for i in 1 .. coalesce(cardinality(v_kinds), 0) loop
      continue when v_endpoints[i] <> v_task.endpoint_id or v_agents[i] <> v_task.agent_id;
      v_demand := case v_kinds[i] when 'tokens' then v_task.tokens when 'input_tokens' then v_task.input_tokens
                                  when 'output_tokens' then v_task.output_tokens else 1 end;
      if v_used[i] + v_demand > v_ceilings[i] and not (v_used[i] = 0 and v_kinds[i] <> 'tasks') then
        v_misfit := v_kinds[i];
        if v_kinds[i] = 'tasks' and v_agents[i] is null then
          v_closed := v_closed || v_task.endpoint_id;  -- no place is left for anything
        end if;
        exit;
      end if;
    end loop;

    if v_misfit = 'tasks' then
      continue;
    elsif v_misfit is not null then
      if v_task.passed_over_at <= v_now - v_task.max_passed_over then
        v_closed := v_closed || v_task.endpoint_id;
      else
        v_waiting := jsonb_set(v_waiting, array[v_task.endpoint_id::text],
          coalesce(v_waiting -> v_task.endpoint_id::text, '[]') || to_jsonb(v_task.id));
      end if;
      continue;
    end if;

    for i in 1 .. coalesce(cardinality(v_kinds), 0) loop
      continue when v_endpoints[i] <> v_task.endpoint_id or v_agents[i] <> v_task.agent_id;
      v_used[i] := v_used[i] + case v_kinds[i] when 'tokens' then v_task.tokens when 'input_tokens' then v_task.input_tokens
                                               when 'output_tokens' then v_task.output_tokens else 1 end;
    end loop;
    v_taken := jsonb_set(v_taken, array[v_task.agent_id::text],
      to_jsonb(coalesce((v_taken ->> v_task.agent_id::text)::integer, 0) + 1));
    v_passed := v_passed || array(
      select jsonb_array_elements_text(v_waiting -> v_task.endpoint_id::text)::bigint);
    v_waiting := v_waiting - v_task.endpoint_id::text;
    v_admitted := v_admitted || v_task.id;
    exit candidates when cardinality(v_admitted) >= wanted;
  end loop;

  update tasks t set passed_over_at = v_now where t.id = any(v_passed) and t.passed_over_at is null;
  return array(
    select t.id
    from tasks t
    where t.id = any(v_admitted) and t.status = 'enqueued' and t.retry_at is null
    order by t.id
    for no key update skip locked);
end $$;

comment on function lakequeue._admit(integer[], integer[], integer[], integer, boolean) is
  'Chooses and locks the tasks that fit every limit, in rule 2''s order.';
