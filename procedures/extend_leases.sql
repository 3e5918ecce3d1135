-- Heartbeats: gives each attempt a new lease of its agent's duration, unless it lost its task or was asked to stop. The
-- usage so far comes along, so that a run that needs more than its estimate is debited at once (rule 4a).
--
-- attempts: ids. tokens: their callback tokens, in the same order; null is for workers, whose login needs none.
-- input_tokens, output_tokens, cached_tokens: used so far, in the same order; null: not known.
-- Returns a row per attempt, in order: extended; lost (it is closed or not yours: stop, nothing you do counts as the
--   run's, though a result is still welcome); cancel (asked to stop: stop and report cancelled).
-- Errors: LQ428 not READ COMMITTED; LQ400 arrays of different lengths, or impossible token numbers; LQ403 tokens left
--   out by a login that is no worker.
-- Locks: the tasks' rows in id order, then the attempts.
create or replace function lakequeue.extend_leases(
  attempts bigint[], tokens text[] default null, input_tokens bigint[] default null,
  output_tokens bigint[] default null, cached_tokens bigint[] default null)
returns table (attempt_id bigint, answer text, lease_expires_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_attempt record;
  v_before tasks;
  v_used numeric[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('extend_leases');
  end if;
  if cardinality(attempts) <> coalesce(cardinality(tokens), cardinality(attempts))
     or cardinality(attempts) <> coalesce(cardinality(input_tokens), cardinality(attempts))
     or cardinality(attempts) <> coalesce(cardinality(output_tokens), cardinality(attempts))
     or cardinality(attempts) <> coalesce(cardinality(cached_tokens), cardinality(attempts)) then
    raise exception using errcode = 'LQ400', message = 'the arrays must have the same length',
      hint = 'One token, and one number where numbers are given, per attempt.';
  end if;
  if tokens is null and not _acts_as('lakequeue_worker') then
    raise exception using errcode = 'LQ403', message = 'tokens may be left out by a worker only',
      hint = 'Pass the callback_token of each attempt.';
  end if;

  -- The tasks are locked first and in order; only then are their attempts worth reading.
  perform from tasks t
  where t.id = any(array(  -- a wrong token locks nothing
      select a.task_id
      from unnest(attempts, tokens) u(attempt, token)
      cross join lateral (select x.id, x.task_id, x.run_key from task_attempts x where x.id = u.attempt limit 1) a
      cross join installation i
      where tokens is null or _token_fits(a.id, a.run_key, u.token, i.secret)))
  order by t.id
  for no key update;
  v_now := _now();

  for v_attempt in
    select u.number, u.attempt, u.input, u.output, u.cached, a.task_id, a.status, g.lease_duration,
           _token_fits(u.attempt, a.run_key, u.token, i.secret) as fits
    from unnest(attempts, tokens, input_tokens, output_tokens, cached_tokens)
      with ordinality u(attempt, token, input, output, cached, number)
    cross join installation i
    left join lateral (  -- LIMIT keeps it a probe, whatever the table was when this was planned
      select x.task_id, x.status, x.run_key, x.agent_id from task_attempts x where x.id = u.attempt limit 1) a on true
    left join agents g on g.id = a.agent_id
    order by u.number
  loop
    attempt_id := v_attempt.attempt;
    lease_expires_at := null;
    if v_attempt.task_id is null
       or (tokens is not null and not v_attempt.fits) then
      answer := 'lost';
      return next;
      continue;
    end if;

    select t.* into v_before from tasks t where t.id = v_attempt.task_id;
    if coalesce(v_attempt.input, v_attempt.output) is not null then
      v_used := _task_usage(v_before.id);
      perform _record_usage(v_attempt.attempt, v_attempt.input, v_attempt.output, v_attempt.cached, null, false, 'callback');
      perform _note_change(v_before, v_before, v_used);
    end if;
    if v_attempt.status <> 'running' then
      answer := 'lost';
    elsif v_before.cancel_requested_at is not null then
      answer := 'cancel';
      lease_expires_at := v_before.lease_expires_at;
    else
      answer := 'extended';
      update tasks t
      set lease_expires_at = greatest(t.lease_expires_at, v_now + v_attempt.lease_duration)
      where t.id = v_before.id
      returning t.lease_expires_at into extend_leases.lease_expires_at;
    end if;
    return next;
  end loop;
end $$;

comment on function lakequeue.extend_leases(bigint[], text[], bigint[], bigint[], bigint[]) is
  'Heartbeats of running attempts, with their usage so far.';
