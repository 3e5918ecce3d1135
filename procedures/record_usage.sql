-- Settles what an attempt used from its trace or another later source (rule 10): complete beats incomplete, a trace
-- beats a callback, else the larger number stays; a repeat changes nothing.
--
-- attempt: its id. input_tokens (cached ones included), output_tokens, cached_tokens, null where not known; llm_cost: USD.
-- complete: the numbers cover the whole attempt. source: trace or callback. trace_id: kept if not known yet.
-- model: where no cost is given, model_prices as they were when the attempt began price its tokens.
-- Returns recorded, or kept (better numbers stand already).
-- Errors: LQ428 not READ COMMITTED; LQ404 unknown attempt; LQ400 impossible numbers or another source.
-- Locks: the task's row, then the attempt.
create or replace function lakequeue.record_usage(
  attempt bigint, input_tokens bigint, output_tokens bigint, cached_tokens bigint default null,
  llm_cost numeric default null, complete boolean default true, source text default 'trace',
  trace_id text default null, model text default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_task tasks;
  v_started timestamptz;
  v_used numeric[];
  v_recorded boolean;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('record_usage');
  end if;
  if source is null or source not in ('trace', 'callback') then
    raise exception using errcode = 'LQ400', message = format('"%s" is no source of usage', left(source, 100)),
      hint = 'Sources: trace, callback.';
  end if;
  select t.* into v_task
  from tasks t
  where t.id = (select a.task_id from task_attempts a where a.id = attempt)
  for no key update;
  if not found then
    raise exception using errcode = 'LQ404', message = format('there is no attempt %s', coalesce(attempt::text, 'null')),
      hint = 'Pass the attempt_id that dequeue_tasks returned.';
  end if;
  select a.started_at into v_started from task_attempts a where a.id = attempt;
  v_used := _task_usage(v_task.id);
  v_recorded := _record_usage(
    attempt, input_tokens, output_tokens, cached_tokens,
    coalesce(llm_cost, _price(model, v_started, input_tokens, output_tokens, cached_tokens)),
    coalesce(complete, false), source);
  update task_attempts a
  set trace_id = _clean_text(record_usage.trace_id, 500)
  where a.id = attempt and a.trace_id is null and record_usage.trace_id is not null;
  perform _note_change(v_task, v_task, v_used);
  return case when v_recorded then 'recorded' else 'kept' end;
end $$;

comment on function lakequeue.record_usage(bigint, bigint, bigint, bigint, numeric, boolean, text, text, text) is
  'Settles what an attempt used: complete beats incomplete, trace beats callback, else the larger.';
