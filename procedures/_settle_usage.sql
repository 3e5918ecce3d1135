-- What an attempt has used once this report is settled (rule 10): complete beats incomplete, a trace beats a callback, else
-- the larger number stays. Numbers are set, never added, so that a repeat changes nothing.
--
-- attempt: as it is, read under its task's row lock. Tokens null where not known; cost in USD.
-- complete: the numbers cover the whole attempt; source: callback or trace. output_share: the agent's.
-- Where the best report names no cost, that of a lesser one stays. What the attempt now counts more than before in a
-- window of its endpoint (see _spending) is noted as raised, so that it debits the throttle's books at once. A cost is rounded to
-- 20 decimals.
-- Returns the attempt as it is to be; _keep_attempt writes it. Errors: LQ400 negative or absurd numbers, or complete
-- without tokens.
create or replace function lakequeue._settle_usage(
  attempt lakequeue.task_attempts, input_tokens bigint, output_tokens bigint, cached_tokens bigint, llm_cost numeric,
  complete boolean, source text, output_share real)
returns lakequeue.task_attempts
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  c_most constant bigint := 1000000000000;  -- the columns' own limit
  v_after task_attempts := attempt;
  v_better boolean;
  v_counts numeric[];
  v_will_count numeric[];
  v_raised numeric[];
begin
  if scale(llm_cost) > 20 then
    llm_cost := round(llm_cost, 20);  -- sums would carry thousands of digits for ever
  end if;
  if coalesce(input_tokens, output_tokens, cached_tokens) is null and llm_cost is null and not complete then
    return attempt;
  end if;
  if not (coalesce(input_tokens, 0) between 0 and c_most and coalesce(output_tokens, 0) between 0 and c_most
          and coalesce(cached_tokens, 0) between 0 and c_most
          and coalesce(llm_cost, 0) >= 0 and coalesce(llm_cost, 0) < 1e9)
     or complete and (input_tokens is null or output_tokens is null) then
    raise exception using errcode = 'LQ400',
      message = format('this usage of attempt %s cannot be right: %s input, %s output, %s cached tokens, USD %s', attempt.id,
        coalesce(input_tokens::text, 'unknown'), coalesce(output_tokens::text, 'unknown'),
        coalesce(cached_tokens::text, 'unknown'), coalesce(llm_cost::text, 'unknown')),
      hint = 'Tokens are 0 to 10^12, costs 0 to 10^9 and never NaN; complete usage names input and output tokens.';
  end if;

  if attempt.usage_source is not null
     and (complete, source = 'trace') < (attempt.usage_complete, attempt.usage_source = 'trace') then
    -- Better numbers stand, but perhaps without a price: the one known is kept, in whatever order they come.
    v_after.llm_cost := coalesce(attempt.llm_cost, llm_cost);
    return v_after;
  end if;

  v_better := attempt.usage_source is null
    or (complete, source = 'trace') > (attempt.usage_complete, attempt.usage_source = 'trace');
  v_after.input_tokens := case when v_better then input_tokens else greatest(attempt.input_tokens, input_tokens) end;
  v_after.output_tokens := case when v_better then output_tokens else greatest(attempt.output_tokens, output_tokens) end;
  v_after.cached_tokens := case when v_better then cached_tokens else greatest(attempt.cached_tokens, cached_tokens) end;
  v_after.llm_cost := case when v_better then coalesce(llm_cost, attempt.llm_cost) else greatest(attempt.llm_cost, llm_cost) end;
  v_after.usage_complete := complete;
  v_after.usage_source := source;
  if not attempt.reserves_calls then
    v_counts := _counted(attempt, output_share);
    v_will_count := _counted(v_after, output_share);
    if v_will_count <> v_counts then
      for k in 1 .. 5 loop
        v_raised[k] := greatest(coalesce(attempt.raised[k], 0) + v_will_count[k] - v_counts[k], 0);
      end loop;
      v_after.raised := nullif(v_raised, '{0,0,0,0,0}');
    end if;
  end if;
  return v_after;
end $$;

comment on function lakequeue._settle_usage(lakequeue.task_attempts, bigint, bigint, bigint, numeric, boolean, text, real) is
  'What an attempt has used once this report is settled.';
