-- An agent hands over what it found (rule 9). The result is kept with its attempt and completes the task in the same
-- transaction; record_callback then confirms, with usage and trace. A result that comes too late is kept all the same:
-- a later retry_task completes from it instead of paying twice.
--
-- attempt, token: as handed to the run. result: JSON of at most 64 MB; U+0000 and lone surrogates become U+FFFD.
-- confidence: 0 to 1, for the whole document.
-- Returns accepted, superseded (the task was final already) or duplicate (this attempt has a result; it stays).
-- Errors: LQ428 not READ COMMITTED; LQ404 unknown attempt; LQ401 wrong token; LQ400 confidence out of range; LQ413 too large;
--   LQ422 not storable, or not readable (_check_json).
-- Locks: the task's row, then its attempts.
create or replace function lakequeue.store_result(
  attempt bigint, token text, result json, confidence double precision default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_before tasks;
  v_after tasks;
  v_read record;
  v_attempt task_attempts;
  v_used numeric[];
  v_stored record;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('store_result');
  end if;
  v_before := _lock_task(attempt, token);
  select k.* into v_read from _known_of(attempt) k;
  v_attempt := v_read.attempt;
  v_used := case when v_before.attempt_count = 1 then _attempt_usage(v_attempt) else _task_usage(v_before.id) end;
  v_stored := _store_result(
    v_before, v_attempt, v_read.stored, v_read.reconcile_grace, v_read.failures_in_a_row, result, confidence);
  v_after := v_before;
  if v_stored.answer = 'accepted' then
    v_after.status := 'completed';
    v_after.finished_at := v_stored.finished_at;
  end if;
  perform _note_change(v_before, v_after, v_used, v_used);
  return v_stored.answer;
end $$;

comment on function lakequeue.store_result(bigint, text, json, double precision) is
  'An agent hands over its result, which completes the task.';
