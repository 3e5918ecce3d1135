-- An agent's model call has ended: from now on it counts with what it used, for 60 seconds. A repeat changes nothing.
--
-- attempt, token: as handed to the run. call: the call_id that reserve_tokens granted. input_tokens, output_tokens: as used; null
-- where the answer did not say: what was reserved stands. More than was reserved debits the throttle's books at once.
-- Returns settled, or duplicate.
-- Errors: LQ404 unknown attempt or call; LQ401 wrong token; LQ400 impossible numbers.
-- Locks: the call's row.
create or replace function lakequeue.settle_tokens(
  attempt bigint, token text, call uuid, input_tokens bigint default null, output_tokens bigint default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
  perform _check_token(attempt, token);
  if not (coalesce(input_tokens, 0) between 0 and 1000000000 and coalesce(output_tokens, 0) between 0 and 1000000000) then
    raise exception using errcode = 'LQ400', message = 'tokens are 0 to 10^9', hint = 'Leave out what is not known.';
  end if;
  update model_calls c
  set ended_at = _now(),
      input_tokens = coalesce(settle_tokens.input_tokens, c.input_tokens),
      output_tokens = coalesce(settle_tokens.output_tokens, c.output_tokens),
      raised = case when m.input + m.output > 0 then array[0, m.tokens, m.input, m.output, 0] end
  from model_calls r
  cross join lateral (
    select greatest(settle_tokens.input_tokens - r.input_tokens, 0) as input,
           greatest(settle_tokens.output_tokens - r.output_tokens, 0) as output,
           greatest(coalesce(settle_tokens.input_tokens, r.input_tokens) + coalesce(settle_tokens.output_tokens, r.output_tokens)
                    - r.input_tokens - r.output_tokens, 0) as tokens) m
  where r.id = any(array[c.id]) and c.key = call and c.attempt_id = attempt and c.granted_at is not null and c.ended_at is null;
  if found then
    return 'settled';
  elsif exists (select from model_calls c where c.key = call and c.attempt_id = attempt and c.ended_at is not null) then
    return 'duplicate';
  end if;
  raise exception using errcode = 'LQ404', message = format('attempt %s has no granted call %s', attempt, call),
    hint = 'Settle the call_id that reserve_tokens granted.';
end $$;

comment on function lakequeue.settle_tokens(bigint, text, uuid, bigint, bigint) is
  'An agent''s model call has ended: it counts with what it used.';
