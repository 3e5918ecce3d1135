-- Settles what an attempt used (rule 10): complete beats incomplete, a trace beats a callback, else the larger number
-- stays. Numbers are set, never added, so that a repeat changes nothing.
--
-- attempt: its id; the caller holds its task's row lock. Tokens null where not known; cost in USD.
-- complete: the numbers cover the whole attempt; source: callback or trace.
-- Where the best report names no cost, that of a lesser one stays.
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

  -- 0 to 3, and -1 for nothing yet
  update task_attempts a
  set input_tokens = case when n.rank > o.rank then n.input else greatest(a.input_tokens, n.input) end,
      output_tokens = case when n.rank > o.rank then n.output else greatest(a.output_tokens, n.output) end,
      cached_tokens = case when n.rank > o.rank then n.cached else greatest(a.cached_tokens, n.cached) end,
      llm_cost = case when n.rank > o.rank then coalesce(n.cost, a.llm_cost) else greatest(a.llm_cost, n.cost) end,
      usage_complete = n.complete,
      usage_source = n.source
  from (values (_record_usage.input_tokens, _record_usage.output_tokens, _record_usage.cached_tokens,
                _record_usage.llm_cost, _record_usage.complete, _record_usage.source,
                2 * _record_usage.complete::integer + (_record_usage.source = 'trace')::integer))
         as n(input, output, cached, cost, complete, source, rank),
       lateral (select case when p.usage_source is null then -1
                            else 2 * p.usage_complete::integer + (p.usage_source = 'trace')::integer end as rank
                from task_attempts p where p.id = _record_usage.attempt) o
  where a.id = _record_usage.attempt and n.rank >= o.rank;
  if found then
    return true;
  end if;
  -- Better numbers stand, but perhaps without a price: the one known is kept, in whatever order they come.
  update task_attempts a set llm_cost = _record_usage.llm_cost
  where a.id = _record_usage.attempt and a.llm_cost is null and _record_usage.llm_cost is not null;
  return false;
end $$;

comment on function lakequeue._record_usage(bigint, bigint, bigint, bigint, numeric, boolean, text) is
  'Settles what an attempt used: complete beats incomplete, trace beats callback, else the larger.';
