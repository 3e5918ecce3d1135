-- Chooses what a dequeue may claim where limits apply (else _admit_freely), and locks it: the tasks of the served agents,
-- merged by priority, created_at and id, as far as every limit has room (_has_room).
--
-- A task that fits no limit per minute is passed over by later ones that do, at most 64 of its agent (rule 5); from the
-- first time on it is noted since when. Once that is longer ago than the endpoint's max_passed_over, nothing of its
-- priority or a lower one that shares the limit is admitted before it, whichever agents the dequeue serves.
--
-- The books' bounds decide as long as they leave room and nothing is overdue; else all is counted and chosen anew, and
-- further ahead.
--
-- exclusive, shared: endpoints whose throttle lock the caller holds; of one held shared, agents to which a
--   limit applies by now are left out.
-- agents: ids of the agents served. wanted: most tasks. fair: at most an equal share for each agent.
-- only_look: says what might be admitted, without any lock, and changes nothing.
-- Returns ids, of the locked tasks; share_used_up: of several agents one may have got its whole share, and have more.
-- Locks: the tasks returned, and those passed over for the first time (_note_passed_over); locked ones are skipped.
create or replace function lakequeue._admit(
  exclusive integer[], shared integer[], agents integer[], wanted integer, fair boolean, only_look boolean default false,
  out ids bigint[], out share_used_up boolean)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
  v_served integer[];
  v_overdue boolean;
  v_share integer;
  -- an element for each holder of limits: an endpoint (agent null), or an agent
  v_endpoints integer[];
  v_agents integer[];
  v_ceilings bigint[];                     -- two dimensions: holder, kind; likewise the next three
  v_used numeric[];
  v_booked numeric[];
  v_raised numeric[];
  v_pages bigint[];
  v_charged boolean[];
  -- the course of the choice
  v_task record;
  v_place boolean;                         -- whether concurrency has room
  v_full_holder integer;                   -- whose limit per minute has none
  h integer;                               -- a holder that the task counts against
  v_admitted bigint[];
  v_admitted_agents integer[];
  v_admitted_endpoints integer[];
  v_closed_endpoints integer[];            -- a task has been passed over for too long: nothing follows it
  v_closed_agents integer[];
  v_misfits bigint[];
  v_misfit_holders integer[];
  v_misfit_after integer[];                -- how many had been admitted before it
begin
  select coalesce(array_agg(a.id) filter (
           where a.paused_at is null and coalesce(e.cooldown_until <= v_now, true)
             and (e.id = any(exclusive) or (e.id = any(shared) and not _limited(a, e)))), '{}'),
         bool_or(e.id = any(exclusive) and e.overdue_at <= v_now)
  into v_served, v_overdue
  from agents a
  join model_endpoints e on e.id = a.model_endpoint_id
  where a.id = any(_admit.agents);
  v_share := case when fair then ceil(wanted::numeric / greatest(cardinality(v_served), 1)) else wanted end;

  <<looks>>
  for v_look in case when v_overdue then 2 else 1 end .. 2 loop
    if v_look = 2 and not only_look then
      perform _recount(exclusive);
      update model_endpoints e
      set overdue_at = o.overdue_at
      from (
        select n.id, (select min(c.passed_over_at) + n.max_passed_over
                      from agents a cross join lateral _candidates(a.id, 64) c
                      where a.model_endpoint_id = n.id and a.paused_at is null) as overdue_at
        from model_endpoints n
        where n.id = any(exclusive) and n.overdue_at <= v_now) o
      where e.id = o.id and e.overdue_at is distinct from o.overdue_at;
    end if;
    select array_agg(l.endpoint_id), array_agg(l.agent_id), array_agg(l.ceilings), array_agg(l.used), array_agg(l.booked),
           array_agg(l.raised), array_agg(l.no), array_agg(false)
    into v_endpoints, v_agents, v_ceilings, v_used, v_booked, v_raised, v_pages, v_charged
    from _limits(exclusive, from_books => v_look = 1 or not only_look) l;
    v_endpoints := coalesce(v_endpoints, '{}');

    v_admitted := '{}'; v_admitted_agents := '{}'; v_admitted_endpoints := '{}';
    v_closed_endpoints := '{}'; v_closed_agents := '{}';
    v_misfits := '{}'; v_misfit_holders := '{}'; v_misfit_after := '{}';

    for v_task in
      select c.id, a.id as agent_id, e.id as endpoint_id, a.reserves_calls, a.id = any(v_served) as served,
             coalesce(c.passed_over_at <= v_now - e.max_passed_over, false) as overdue,
             _demand(a, e, _estimate(a, c.page_count, c.document_bytes)) as demand
      from agents a
      join model_endpoints e on e.id = a.model_endpoint_id
      -- Where the lock is exclusive nobody else can claim, so that looking ahead need not lock.
      cross join lateral (
        select c.id, c.priority, c.created_at, c.page_count, c.document_bytes, c.passed_over_at
        from _candidates(a.id, case when v_look = 2 then v_share + 64 else v_share end) c
        where e.id = any(exclusive)
        union all
        select t.id, t.priority, t.created_at, t.page_count, t.document_bytes, t.passed_over_at
        from unnest(_lock_candidates(a.id, v_share)) l(id)
        cross join lateral (select x.* from tasks x where x.id = l.id limit 1) t
        where e.id <> all(exclusive)) c
      where (a.id = any(v_served) or (e.id = any(exclusive) and e.overdue_at <= v_now and a.paused_at is null))
        -- Of agents not served here only what has been passed over for too long.
        and (a.id = any(v_served) or c.passed_over_at <= v_now - e.max_passed_over)
      order by c.priority desc, c.created_at, c.id
    loop
      continue when v_task.endpoint_id = any(v_closed_endpoints) or v_task.agent_id = any(v_closed_agents);
      continue when not v_task.overdue and cardinality(array_positions(v_admitted_agents, v_task.agent_id)) >= v_share;

      v_place := true; v_full_holder := null;
      foreach h in array array_positions(v_endpoints, v_task.endpoint_id) loop
        continue when v_agents[h] <> v_task.agent_id;
        for k in 1 .. 5 loop
          continue when v_ceilings[h][k] is null or greatest(v_used[h][k], v_booked[h][k]) + v_task.demand[k] <= v_ceilings[h][k];
          if not _has_room(k, v_task.reserves_calls, v_ceilings[h][k], v_used[h][k], v_booked[h][k], v_task.demand[k]) then
            -- A bound from the books may be too high: count.
            continue looks when v_look = 1;
            v_place := v_place and k > 1;
            v_full_holder := case when k > 1 then coalesce(v_full_holder, h) else v_full_holder end;
          end if;
        end loop;
      end loop;

      if v_full_holder is not null then
        if v_task.overdue and v_agents[v_full_holder] is null then
          v_closed_endpoints := v_closed_endpoints || v_task.endpoint_id;
        elsif v_task.overdue or v_task.reserves_calls then  -- none of its tasks fits better than another
          v_closed_agents := v_closed_agents || v_task.agent_id;
        end if;
        if not v_task.overdue then
          v_misfits := v_misfits || v_task.id;
          v_misfit_holders := v_misfit_holders || v_full_holder;
          v_misfit_after := v_misfit_after || cardinality(v_admitted);
        end if;
      elsif v_place and (v_task.served or v_task.overdue) then
        -- Room is kept for one that has been passed over for too long, also if this dequeue cannot take it.
        foreach h in array array_positions(v_endpoints, v_task.endpoint_id) loop
          continue when v_agents[h] <> v_task.agent_id;
          v_charged[h] := true;
          for k in 1 .. 5 loop
            v_booked[h][k] := v_booked[h][k] + v_task.demand[k];
            if k = 1 or not v_task.reserves_calls then
              v_used[h][k] := v_used[h][k] + v_task.demand[k];
            end if;
          end loop;
        end loop;
        continue when not v_task.served;
        v_admitted := v_admitted || v_task.id;
        v_admitted_agents := v_admitted_agents || v_task.agent_id;
        v_admitted_endpoints := v_admitted_endpoints || v_task.endpoint_id;
        exit looks when cardinality(v_admitted) >= wanted;
      end if;
    end loop;
    exit looks;
  end loop;

  share_used_up := fair and cardinality(v_served) > 1 and cardinality(v_admitted) >= v_share;
  if only_look then
    ids := v_admitted;
    return;
  end if;

  if v_misfits <> '{}' and v_admitted <> '{}' then
    perform _note_passed_over(v_admitted_endpoints, array(
      select m.id
      from unnest(v_misfits, v_misfit_holders, v_misfit_after) m(id, holder, after)
      where exists (
        select from unnest(v_admitted_endpoints, v_admitted_agents) with ordinality a(endpoint_id, agent_id, no)
        where a.no > m.after and a.endpoint_id = v_endpoints[m.holder] and coalesce(a.agent_id = v_agents[m.holder], true))));
  end if;

  -- What else must hold is asked of the locked rows: the planner would read a whole index for it.
  ids := array(
    select l.id
    from (select t.id, t.status, t.retry_at from tasks t
          where t.id = any(v_admitted) order by t.id offset 0 for no key update skip locked) l
    where l.status = 'enqueued' and l.retry_at is null);
  if ids <> '{}' and true = any(v_charged) then
    perform _keep_book(  -- a statement for each: a join would read all of the books
      v_endpoints[i], v_agents[i], v_pages[i],
      array[v_used[i][1], v_used[i][2], v_used[i][3], v_used[i][4], v_used[i][5]],
      array[v_booked[i][1], v_booked[i][2], v_booked[i][3], v_booked[i][4], v_booked[i][5]],
      array[v_raised[i][1], v_raised[i][2], v_raised[i][3], v_raised[i][4], v_raised[i][5]])
    from generate_subscripts(v_endpoints, 1) i
    where v_charged[i];
  end if;
end $$;

comment on function lakequeue._admit(integer[], integer[], integer[], integer, boolean, boolean) is
  'Chooses and locks the tasks that fit every limit, in rule 2''s order.';
