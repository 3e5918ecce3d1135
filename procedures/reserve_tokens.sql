-- An agent asks before a model call (rule 4b): the call takes its tokens and one request from every limit of its
-- endpoint and agent, or waits its turn. From grant to settle_tokens it counts in full, then for 60 seconds with what it
-- used. So no 60-second window exceeds a limit, whatever the estimates said: prompt tokens are counted, and
-- max_output_tokens is a ceiling.
--
-- attempt, token: as handed to the run. input_tokens: of the prompt. max_output_tokens: what the call may answer at most.
-- call: the agent's name for this call, a new uuid for each; asking again with it is the same call, so that no answer
--   can be lost. Without one the answer names it.
-- durable: false: the commit does not wait for the disk (nor does anything else in the same transaction), so that the
--   throttle lock is free at once. If the answer is granted, ask again with the same call and true, which takes no lock, and
--   start the call only if that says granted, too, and is committed.
-- Returns one row: answer granted (call now, then settle_tokens), wait (ask again, with call_id, after wait; one that has
--   not asked for 10 seconds holds up nobody), lost or cancel (as extend_leases: stop); call_id: the call; wait: null
--   unless waiting. Higher priority goes first, then who asked first: a call passes others only as far as those fit
--   beside it, or wait for a limit that is not its own.
-- Errors: LQ404 unknown attempt; LQ401 wrong token; LQ400 impossible numbers; LQ409 the call was settled, or granted with fewer
--   tokens; LQ413 a call that no window of a limit can hold: make it smaller; LQ428 another isolation level than READ COMMITTED;
--   55P03 somebody has held a waiting call's row for more than 250 ms (set_priorities, before its commit): call again, nothing
--   was done.
-- Locks: none for a call that is granted already. Else the throttle locks of the attempt's endpoint and, if its agent has moved
--   since, of the agent's new one, by id; if they are not to be had within 250 ms the answer is wait. Then the attempt, tried;
--   the call; now and then those of _note_calls.
create or replace function lakequeue.reserve_tokens(
  attempt bigint, token text, input_tokens bigint, max_output_tokens bigint, call uuid default gen_random_uuid(),
  durable boolean default true)
returns table (answer text, call_id uuid, wait interval)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set lock_timeout = '250ms'
as $$
declare
  v_task_id bigint := _check_token(attempt, token);
  v_attempt task_attempts;
  v_task tasks;
  v_endpoints integer[];
  v_kept model_calls;  -- the call as it is stored
  v_call model_calls;  -- and as it is to be
  v_now timestamptz;
  v_limit record;
  v_new boolean := false;
  v_ahead bigint := 0;
  v_agent_limit boolean;
  v_wait interval;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('reserve_tokens');
  end if;
  if call is null or input_tokens is null or max_output_tokens is null or durable is null
     or not (input_tokens between 0 and 1000000000 and max_output_tokens between 0 and 1000000000) then
    raise exception using errcode = 'LQ400', message = 'a call needs input_tokens and max_output_tokens, 0 to 10^9',
      hint = 'Count the prompt''s tokens; max_output_tokens is the max_tokens of the request; call is a uuid, durable true or false.';
  end if;
  call_id := call;

  -- The answer was lost on its way, or did not wait for the disk. It stays granted until it ends.
  select c.* into v_kept
  from model_calls c
  where c.attempt_id = attempt and c.key = call and c.granted_at is not null and c.ended_at is null
    and (select a.status from task_attempts a where a.id = attempt) = 'running'
    and (select t.cancel_requested_at from tasks t where t.id = v_task_id) is null;
  if found then
    if v_kept.input_tokens < input_tokens or v_kept.output_tokens < max_output_tokens then
      raise exception using errcode = 'LQ409',
        message = format('call %s of attempt %s was granted with %s prompt and %s answer tokens, not with more', call, attempt,
                         v_kept.input_tokens, v_kept.output_tokens),
        hint = 'Ask for a larger call by another name.';
    end if;
    if durable then
      perform _flush_at_commit();
    end if;
    answer := 'granted';
    return next;
    return;
  end if;
  if not durable then
    perform set_config('synchronous_commit', 'off', true);
  end if;

  select array(select distinct e.id from unnest(array[a.endpoint_id, g.model_endpoint_id]) e(id) order by e.id)
  into v_endpoints
  from task_attempts a
  join agents g on g.id = a.agent_id
  where a.id = attempt;
  begin
    perform pg_advisory_xact_lock(_lock_class(), e.id) from unnest(v_endpoints) e(id);
  exception when lock_not_available then
    answer := 'wait';
    wait := interval '50 ms';
    return next;
    return;
  end;
  v_now := _now();

  -- Held until commit, so that whoever closes the attempt closes this call, too. It is not waited for: an agent's own
  -- heartbeat may hold it, and everybody at the endpoint would wait along.
  select a.* into v_attempt from task_attempts a where a.id = attempt for no key update skip locked;
  if not found then
    answer := 'wait';
    wait := interval '20 ms';
    return next;
    return;
  end if;
  select t.* into v_task from tasks t where t.id = v_task_id;
  if v_attempt.status <> 'running' or v_task.cancel_requested_at is not null then
    answer := case when v_attempt.status <> 'running' then 'lost' else 'cancel' end;
    return next;
    return;
  end if;
  if not exists (select from agents g where g.id = v_attempt.agent_id and g.model_endpoint_id = any(v_endpoints)) then
    answer := 'wait';  -- it has just been moved: its own limits are under another lock now
    wait := interval '50 ms';
    return next;
    return;
  end if;
  if not v_attempt.reserves_calls then
    update task_attempts a set reserves_calls = true where a.id = attempt;
  end if;

  -- Nobody else asks for this call now, since that takes the attempt.
  select c.* into v_kept from model_calls c where c.attempt_id = attempt and c.key = call;
  if v_kept.ended_at is not null then
    raise exception using errcode = 'LQ409', message = format('call %s of attempt %s has ended', call, attempt),
      hint = 'Name every call anew.';
  elsif v_kept.granted_at is not null then  -- to another session, a moment ago: the next ask needs no lock
    answer := 'wait';
    wait := interval '20 ms';
    return next;
    return;
  end if;
  v_call := v_kept;
  if v_kept.id is null then
    v_new := true;
    v_call.attempt_id := attempt;
    v_call.key := call;
    v_call.endpoint_id := v_attempt.endpoint_id;
    v_call.agent_id := v_attempt.agent_id;
    v_call.priority := v_task.priority;
    v_call.asked_at := v_now;
    v_call.agent_limit := false;
  end if;
  v_call.seen_at := v_now;
  v_call.input_tokens := reserve_tokens.input_tokens;
  v_call.output_tokens := max_output_tokens;

  <<counts>>
  for v_count in 1 .. 2 loop
    if v_count = 2 then  -- a bound from the books may be too high
      v_call := _keep_call(v_call);  -- counted with what waits
      v_kept := v_call;
      perform _recount(v_endpoints);
    end if;
    for v_limit in
      with ahead as materialized (
        select c.*
        from _open_calls(v_endpoints, only_waiting => true) c
        where _still_asks(c, v_now)
          and (c.priority > v_call.priority or (c.priority = v_call.priority and coalesce(c.id < v_call.id, true)))
      )
      select l.agent_id, k.kind, k.ceiling, d.demand, o.calls, k.used + o.amount + d.demand - k.ceiling as missing
      from _limits(v_endpoints, from_books => true) l
      cross join lateral unnest(_kinds(), l.ceilings, l.used) k(kind, ceiling, used)
      cross join lateral (select _call_amount(k.kind, v_call.input_tokens, v_call.output_tokens) as demand) d
      cross join lateral (
        select coalesce(sum(_call_amount(k.kind, c.input_tokens, c.output_tokens)), 0) as amount, count(*) as calls
        from ahead c
        where case when l.agent_id is null then c.endpoint_id = l.endpoint_id and not c.agent_limit
                   else c.agent_id = l.agent_id end) o
      where k.kind <> 'tasks' and k.ceiling is not null
        and (l.agent_id = v_call.agent_id or (l.agent_id is null and l.endpoint_id = v_call.endpoint_id))
        and coalesce(k.used + o.amount + d.demand > k.ceiling, true)
    loop
      if v_limit.demand > v_limit.ceiling then
        raise exception using errcode = 'LQ413',
          message = format('a call of %s prompt and at most %s answer tokens never fits the limit of %s %s per minute',
                           v_call.input_tokens, v_call.output_tokens, v_limit.ceiling, v_limit.kind),
          hint = 'Split the document into smaller chunks, or lower max_output_tokens.';
      end if;
      continue counts when v_count = 1;
      v_agent_limit := coalesce(v_agent_limit, true) and v_limit.agent_id is not null;
      v_ahead := greatest(v_ahead, v_limit.calls);
      v_wait := greatest(v_wait, coalesce(  -- look again where it depends on calls under way
        _room_after(v_call.endpoint_id, v_limit.agent_id, v_limit.kind, v_limit.missing), interval '1 second'));
    end loop;
    exit counts;
  end loop;
  -- Where a 429 came in spite of all this, everybody waits (rule 11).
  v_wait := greatest(v_wait, (select e.cooldown_until - v_now from model_endpoints e
                              where e.id = v_call.endpoint_id and e.cooldown_until > v_now));

  if v_wait is null then
    perform _keep_book(l.endpoint_id, l.agent_id, l.no,
                       _plus(l.used, array[0, v_call.input_tokens + v_call.output_tokens, v_call.input_tokens, v_call.output_tokens, 1]),
                       l.booked, l.raised)
    from _limits(v_endpoints, from_books => true) l
    where l.agent_id = v_call.agent_id or (l.agent_id is null and l.endpoint_id = v_call.endpoint_id);
    v_call.granted_at := v_now;
    answer := 'granted';
  else
    v_call.agent_limit := coalesce(v_agent_limit, false);
    -- What is under way may end sooner and at less than it reserved: look again soon, the further back the later.
    answer := 'wait';
    wait := greatest(least(v_wait, least(1 + 0.02 * v_ahead, 8) * interval '1 second'), interval '20 ms');
  end if;
  if v_call is distinct from v_kept then
    v_call := _keep_call(v_call);
  end if;
  if v_new and hashint8(v_call.id) & 63 = 0 then  -- upkeep, with every 64th call or so
    perform _note_calls(v_call.endpoint_id);
  end if;
  return next;
end $$;

comment on function lakequeue.reserve_tokens(bigint, text, bigint, bigint, uuid, boolean) is
  'An agent asks before a model call: granted, or how long to wait.';
