-- An agent asks before a model call (rule 4b): the call takes its tokens and one request from every limit of its
-- endpoint and agent, or waits its turn. Between grant and settle_tokens it counts in full, and for 60 seconds after
-- its end with what it used. So no 60-second window exceeds a limit, whatever the estimates said: prompt tokens are
-- counted, max_output_tokens is a ceiling.
--
-- attempt, token: as handed to the run. input_tokens: of the prompt. max_output_tokens: what the call may answer at most.
-- call: null to ask for a new call; then its id, until it is granted.
-- Returns one row: answer granted (call now, then settle_tokens), wait (ask again after wait, at the latest within 10
--   seconds, or others go first), lost or cancel (as extend_leases: stop); call: its id; wait: null unless waiting.
--   Whoever has the higher priority, then whoever asked first, is first; none passes the first one.
-- Errors: LQ404 unknown attempt or call; LQ401 wrong token; LQ400 impossible numbers; LQ413 a call that no window of a
--   limit can hold: make it smaller; LQ428 another isolation level than READ COMMITTED.
-- Locks: the endpoint's throttle lock; if that is not to be had within 250 ms the answer is wait.
create or replace function lakequeue.reserve_tokens(
  attempt bigint, token text, input_tokens bigint, max_output_tokens bigint, call bigint default null)
returns table (answer text, call_id bigint, wait interval)
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
  v_call model_calls;
  v_ahead integer;
  v_limit record;
  v_now timestamptz;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'LQ428',
      message = format('reserve_tokens cannot run in a %s transaction', current_setting('transaction_isolation')),
      hint = 'Call it in autocommit, or in a READ COMMITTED transaction: limits are counted after the lock.';
  end if;
  if input_tokens is null or max_output_tokens is null
     or not (input_tokens between 0 and 1000000000 and max_output_tokens between 0 and 1000000000) then
    raise exception using errcode = 'LQ400', message = 'a call needs input_tokens and max_output_tokens, 0 to 10^9',
      hint = 'Count the prompt''s tokens; max_output_tokens is the max_tokens of the request.';
  end if;

  select a.* into v_attempt from task_attempts a where a.id = attempt;
  begin
    perform pg_advisory_xact_lock(_lock_class(), v_attempt.endpoint_id);
  exception when lock_not_available then
    return query select 'wait'::text, call, interval '50 ms';
    return;
  end;
  v_now := _now();

  select t.* into v_task from tasks t where t.id = v_task_id;
  select a.* into v_attempt from task_attempts a where a.id = attempt;
  if v_attempt.status <> 'running' or v_task.cancel_requested_at is not null then
    return query select case when v_attempt.status <> 'running' then 'lost' else 'cancel' end, call, null::interval;
    return;
  end if;

  if call is null then
    select l.* into v_limit
    from _ceilings(v_attempt.endpoint_id, v_attempt.agent_id) l
    cross join lateral (
      select case l.kind when 'tokens' then input_tokens + max_output_tokens when 'input_tokens' then input_tokens
                         when 'output_tokens' then max_output_tokens else 1 end as demand) d
    where l.kind <> 'tasks' and d.demand > l.ceiling
    limit 1;
    if found then
      raise exception using errcode = 'LQ413',
        message = format('a call of %s prompt and at most %s answer tokens never fits the limit of %s %s per minute',
                         input_tokens, max_output_tokens, v_limit.ceiling, v_limit.kind),
        hint = 'Split the document into smaller chunks, or lower max_output_tokens.';
    end if;
    insert into model_calls as c (
      endpoint_id, agent_id, attempt_id, priority, input_tokens, output_tokens, asked_at, seen_at)
    values (v_attempt.endpoint_id, v_attempt.agent_id, attempt, v_task.priority, reserve_tokens.input_tokens,
            max_output_tokens, v_now, v_now)
    returning c.* into v_call;
  else
    update model_calls c set seen_at = v_now where c.id = call and c.attempt_id = attempt returning c.* into v_call;
    if not found then
      raise exception using errcode = 'LQ404', message = format('attempt %s has no call %s', attempt, call),
        hint = 'Ask without a call first; pass the call_id of that answer.';
    end if;
    if v_call.granted_at is not null then  -- the answer was lost on its way
      return query select 'granted'::text, v_call.id, null::interval;
      return;
    end if;
  end if;

  select count(*) into v_ahead
  from model_calls c
  where c.endpoint_id = v_call.endpoint_id and c.granted_at is null and c.seen_at > v_now - interval '10 seconds'
    and (c.priority > v_call.priority or (c.priority = v_call.priority and c.id < v_call.id));
  if v_ahead > 0 then
    return query select 'wait'::text, v_call.id, least(0.1 * v_ahead, 5) * interval '1 second';
    return;
  end if;

  for v_limit in
    select l.kind, l.ceiling, l.used, l.agent_id, d.demand
    from _limits(array[v_call.endpoint_id]) l
    cross join lateral (
      select case l.kind when 'tokens' then v_call.input_tokens + v_call.output_tokens
                         when 'input_tokens' then v_call.input_tokens
                         when 'output_tokens' then v_call.output_tokens else 1 end as demand) d
    where l.kind <> 'tasks' and (l.agent_id is null or l.agent_id = v_call.agent_id)
      and l.used + d.demand > l.ceiling
  loop
    return query
      select 'wait'::text, v_call.id,
             greatest(least(_room_after(v_call.endpoint_id, v_limit.agent_id, v_limit.kind,
                                        v_limit.used + v_limit.demand - v_limit.ceiling), interval '5 seconds'),
                      interval '20 ms');
    return;
  end loop;

  update model_calls c set granted_at = v_now where c.id = v_call.id;
  return query select 'granted'::text, v_call.id, null::interval;
end $$;

comment on function lakequeue.reserve_tokens(bigint, text, bigint, bigint, bigint) is
  'An agent asks before a model call: granted, or how long to wait.';
