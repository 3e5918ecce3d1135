-- Settles what an attempt used (rule 10): complete beats incomplete, a trace beats a callback, else the larger number
-- stays. Numbers are set, never added, so that a repeat changes nothing.
--
-- attempt: its id; the caller holds its task's row lock. Tokens null where not known; cost in USD.
-- complete: the numbers cover the whole attempt; source: callback or trace.
-- Where the best report names no cost, that of a lesser one stays. What the attempt now counts more than before in a
-- window of its endpoint (see _spending) is noted as raised, so that it debits the throttle's books at once.
-- Returns whether the numbers now stand. Errors: LQ400 negative or absurd numbers, or complete without tokens.
create or replace function lakequeue._record_usage(
  attempt bigint, input_tokens bigint, output_tokens bigint, cached_tokens bigint, llm_cost numeric,
  complete boolean, source text)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  c_most constant bigint := 1000000000000;  -- the columns' own limit
  v_before task_attempts;
  v_after task_attempts;
  v_better boolean;
begin
  if coalesce(input_tokens, output_tokens, cached_tokens) is null and llm_cost is null and not complete then
    return false;
  end if;
  if not (coalesce(input_tokens, 0) between 0 and c_most and coalesce(output_tokens, 0) between 0 and c_most
          and coalesce(cached_tokens, 0) between 0 and c_most
          and coalesce(llm_cost, 0) >= 0 and coalesce(llm_cost, 0) < 1e9)
     or complete and (input_tokens is null or output_tokens is null) then
    raise exception using errcode = 'LQ400',
      message = format('this usage of attempt %s cannot be right: %s input, %s output, %s cached tokens, USD %s', attempt,
        coalesce(input_tokens::text, 'unknown'), coalesce(output_tokens::text, 'unknown'),
        coalesce(cached_tokens::text, 'unknown'), coalesce(llm_cost::text, 'unknown')),
      hint = 'Tokens are 0 to 10^12, costs 0 to 10^9 and never NaN; complete usage names input and output tokens.';
  end if;

  select a.* into v_before from task_attempts a where a.id = attempt for no key update;
  if v_before.usage_source is not null
     and (complete, source = 'trace') < (v_before.usage_complete, v_before.usage_source = 'trace') then
    -- Better numbers stand, but perhaps without a price: the one known is kept, in whatever order they come.
    update task_attempts a set llm_cost = _record_usage.llm_cost
    where a.id = _record_usage.attempt and a.llm_cost is null and _record_usage.llm_cost is not null;
    return false;
  end if;

  v_better := v_before.usage_source is null
    or (complete, source = 'trace') > (v_before.usage_complete, v_before.usage_source = 'trace');
  v_after := v_before;
  v_after.input_tokens := case when v_better then input_tokens else greatest(v_before.input_tokens, input_tokens) end;
  v_after.output_tokens := case when v_better then output_tokens else greatest(v_before.output_tokens, output_tokens) end;
  v_after.cached_tokens := case when v_better then cached_tokens else greatest(v_before.cached_tokens, cached_tokens) end;
  v_after.llm_cost := case when v_better then coalesce(llm_cost, v_before.llm_cost) else greatest(v_before.llm_cost, llm_cost) end;
  v_after.usage_complete := complete;
  if not v_before.reserves_calls then
    v_after.raised := array(
      select greatest(coalesce(v_before.raised[c.kind], 0) + c.after - c.before, 0)
      from unnest(_counted(v_before), _counted(v_after)) with ordinality c(before, after, kind)
      order by c.kind);
    v_after.raised := nullif(v_after.raised, '{0,0,0,0,0}');
  end if;
  update task_attempts a
  set input_tokens = v_after.input_tokens, output_tokens = v_after.output_tokens, cached_tokens = v_after.cached_tokens,
      llm_cost = v_after.llm_cost, usage_complete = complete, usage_source = source, raised = v_after.raised
  where a.id = _record_usage.attempt;
  return true;
end $$;

comment on function lakequeue._record_usage(bigint, bigint, bigint, bigint, numeric, boolean, text) is
  'Settles what an attempt used: complete beats incomplete, trace beats callback, else the larger.';
