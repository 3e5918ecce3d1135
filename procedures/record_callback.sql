-- An agent reports how its attempt ended (rules 8 to 11). Delivery may repeat and come late or out of order: the same
-- report gives the same state, and nothing is counted twice.
--
-- attempt, token: as handed to the run.
-- outcome: success, failure (may be tried again), permanent_failure (cannot succeed on a second try), rate_limited
--   (the run could not go on; back to the queue without counting as a failure), cancelled (it stopped as asked).
-- result, confidence: with success, if store_result was not called before.
-- input_tokens, output_tokens, cached_tokens: what the attempt used; llm_cost: USD; usage_complete: all of it.
-- error_class: a short word such as document_encrypted; error: a JSON string or object with "message".
-- run_id, trace_id: kept if not known yet. retry_after: with rate_limited, the wait that the endpoint asked for,
--   at most an hour.
-- Returns accepted; duplicate (the attempt has reported already); superseded (somebody else has settled the task);
--   result_missing (a success without a result: nothing changed, hand one over and report again).
-- Errors: LQ428 not READ COMMITTED; LQ404 unknown attempt; LQ401 wrong token; LQ400 a value out of range; LQ413, LQ422
--   see store_result.
-- Locks: the task's row, then its attempts.
create or replace function lakequeue.record_callback(
  attempt bigint, token text, outcome text, result json default null, confidence double precision default null,
  input_tokens bigint default null, output_tokens bigint default null, cached_tokens bigint default null,
  llm_cost numeric default null, usage_complete boolean default false, error_class text default null,
  error json default null, run_id bigint default null, trace_id text default null, retry_after interval default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('record_callback');
  end if;
  return _apply_callback(
    attempt, token, outcome, result, confidence, input_tokens, output_tokens, cached_tokens,
    llm_cost, usage_complete, error_class, error, run_id, trace_id, retry_after);
end $$;

comment on function lakequeue.record_callback(bigint, text, text, json, double precision, bigint, bigint, bigint, numeric,
  boolean, text, json, bigint, text, interval) is 'An agent reports how its attempt ended; repeats change nothing.';
