-- Claims tasks for a worker: throttle and claim in one transaction (rules 1 to 6, 12). Call it in a transaction of its
-- own (autocommit), since the throttle locks last until commit.
--
-- worker: its name. batch_size: most tasks to claim, 1 to 1000. agents: names of the agents served, null for all; of
-- these a worker of job runs serves those that have a job, one of local runs the others, and a name without a row in
-- workers (a person at psql) both.
-- durable: false: the commit does not wait for the disk (nor does anything else in the same transaction), so that the throttle
-- lock is free at once. Then start only what confirm_claims confirms. Worth it where several workers share an endpoint with
-- limits; elsewhere it costs one more call.
-- Returns the claimed attempts in rule 2's order, second helpings last, with all that their runs need (outcome claimed);
--   one row with outcome busy and nothing else if others held the locks where something might fit (try again in 5 to
--   20 ms); no row if nothing may be claimed now.
-- Errors: LQ428 any isolation level but READ COMMITTED (counts would be stale); LQ400 bad worker or batch size; LQ404
--   unknown agent; 55P03 see Locks in db/README.md: call again.
-- Locks: tries the throttle locks of the endpoints that have claimable tasks, exclusive where a limit applies, else
--   shared, from a random start; waits, at most 250 ms, for one of them where there might be room, and only while
--   holding none; then the claimed tasks, skipping locked ones; now and then those of _advance_lanes and _note_running,
--   for which the shared throttle locks are tried exclusively.
create or replace function lakequeue.dequeue_tasks(
  worker text, batch_size integer default 10, agents text[] default null, durable boolean default true)
returns table (
  outcome text, task_id bigint, attempt_id bigint, attempt_number integer, agent text, job_id bigint,
  run_key uuid, callback_token text, customer text, document_path text, payload jsonb, page_count integer,
  priority smallint, estimated_tokens bigint, max_tpm bigint, lease_duration interval,
  lease_expires_at timestamptz, parameters jsonb, model_prices jsonb, reserves_calls boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set lock_timeout = '100ms'
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_agent_ids integer[];
  v_relay text;
  v_endpoint record;
  v_exclusive integer[] := '{}'::integer[];  -- endpoints held with limits
  v_shared integer[] := '{}'::integer[];     -- endpoints held without
  v_served integer[] := '{}'::integer[];     -- their agents that have something to claim
  v_busy integer[] := '{}'::integer[];       -- endpoints that somebody else holds
  v_busy_agents integer[] := '{}'::integer[];  -- and their agents
  v_roomy integer[];                         -- those of them where half of every limit is left
  v_looked boolean := false;                 -- whether v_busy is only what a look has found room at
  v_limited integer[] := '{}'::integer[];    -- endpoints where a limit applies
  v_admitted record;
  v_claimed bigint[] := '{}'::bigint[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('dequeue_tasks');
  end if;
  if coalesce(worker, '') = '' or length(worker) > 200 or batch_size is null or batch_size not between 1 and 1000
     or durable is null then
    raise exception using errcode = 'LQ400',
      message = 'dequeue_tasks needs a worker''s name, a batch_size of 1 to 1000, and durable to be true or false',
      hint = 'Example: select * from lakequeue.dequeue_tasks(worker => ''me'', batch_size => 10).';
  end if;
  if not durable then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  if agents is not null then
    v_agent_ids := array(select (_agent(n.name)).id from unnest(agents) n(name));
  end if;

  -- Peek: where is anything to claim, and does a limit apply there? The only agent need not be asked where no limit
  -- applies.
  for v_endpoint in
    select s.endpoint_id as id, s.relay, array_agg(s.agent_id) as agents, bool_or(s.limited) as limited
    from (
      select a.id as agent_id, e.id as endpoint_id, w.relay, _limited(a, e) as limited
      from agents a
      join model_endpoints e on e.id = a.model_endpoint_id
      left join workers w on w.name = worker
      where (dequeue_tasks.agents is null or a.id = any(v_agent_ids))
        and a.paused_at is null
        and (w.relay is null or (w.relay = 'databricks') = (a.job_id is not null))
        and coalesce(e.cooldown_until <= _now(), true)) s
    where not s.limited and not exists (
            select from agents o
            where o.id <> s.agent_id and o.paused_at is null and (dequeue_tasks.agents is null or o.id = any(v_agent_ids)))
      or _has_claimable(s.agent_id)
    group by s.endpoint_id, s.relay
    order by random()
  loop
    v_relay := v_endpoint.relay;
    if v_endpoint.limited then
      v_limited := v_limited || v_endpoint.id;
    end if;
    if v_endpoint.limited and pg_try_advisory_xact_lock(_lock_class(), v_endpoint.id) then
      v_exclusive := v_exclusive || v_endpoint.id;
      v_served := v_served || v_endpoint.agents;
    elsif not v_endpoint.limited and pg_try_advisory_xact_lock_shared(_lock_class(), v_endpoint.id) then
      v_shared := v_shared || v_endpoint.id;
      v_served := v_served || v_endpoint.agents;
    else
      v_busy := v_busy || v_endpoint.id;
      v_busy_agents := v_busy_agents || v_endpoint.agents;
    end if;
  end loop;

  -- Whatever has work is held by others, so one endpoint is waited for; but only where half of every limit is left, or a look
  -- without its lock finds room: who waits stands in the way of those that reserve tokens there.
  if v_busy <> '{}' and v_served = '{}' then
    v_roomy := _half_left(v_busy, v_busy_agents);
    v_looked := v_roomy = '{}';
    v_busy := case when v_looked then _with_room(v_busy, v_busy_agents)
                   else v_roomy || array(select b.id from unnest(v_busy) b(id) where b.id <> all(v_roomy)) end;
    if v_busy <> '{}' and _wait_for_endpoint(v_busy[1], v_busy[1] = any(v_limited)) then
      if v_busy[1] = any(v_limited) then
        v_exclusive := v_busy[1:1];
      else
        v_shared := v_busy[1:1];
      end if;
      v_served := array(select a.id from agents a where a.id = any(v_busy_agents) and a.model_endpoint_id = v_busy[1]);
      v_busy := v_busy[2:];
    end if;
  end if;

  -- A first helping of an equal share for each agent, then a second one of what is left of the batch (told after it).
  for v_helping in 1..2 loop
    exit when v_served = '{}';
    if v_exclusive = '{}' then
      v_admitted := _admit_freely(v_shared, v_served, batch_size - cardinality(v_claimed), v_helping = 1);
    else
      v_admitted := _admit(v_exclusive, v_shared, v_served, batch_size - cardinality(v_claimed), v_helping = 1);
    end if;
    if v_admitted.ids <> '{}' then
      v_claimed := v_claimed || v_admitted.ids;
      return query select c.* from _claim(v_admitted.ids, worker, v_relay) c;
    end if;
    exit when cardinality(v_claimed) >= batch_size or not v_admitted.share_used_up;
  end loop;

  -- Who is told busy comes again at once: so only where something might fit, or workers that all look at full limits would
  -- keep each other busy for ever.
  if v_claimed = '{}' and v_busy <> '{}' and (v_looked or _with_room(v_busy, v_busy_agents) <> '{}') then
    outcome := 'busy';
    return next;
  end if;

  -- Upkeep with every 64th claim or so: by a hash of an id, so that nobody's turn is always another's.
  if hashint8(v_claimed[1]) & 63 < cardinality(v_claimed) then
    perform _advance_lanes(u.agent_id, u.priorities)
    from (select t.agent_id, array_agg(distinct t.priority) as priorities
          from tasks t
          where t.id = any(v_claimed)
          group by t.agent_id) u;
    -- What runs without limits is noted where nobody else claims just now.
    perform _note_running(v_exclusive || array(
      select s.id from unnest(v_shared) s(id) where pg_try_advisory_xact_lock(_lock_class(), s.id)));
  end if;
end $$;

comment on function lakequeue.dequeue_tasks(text, integer, text[], boolean) is
  'Claims tasks for a worker: throttle and claim in one transaction.';
