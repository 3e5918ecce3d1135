-- Settles what an attempt used, see _settle_usage, and writes it.
--
-- attempt: its id; the caller holds its task's row lock. The others: see _settle_usage.
-- Returns whether the numbers now stand. Errors: LQ400 negative or absurd numbers, or complete without tokens.
create or replace function lakequeue._record_usage(
  attempt bigint, input_tokens bigint, output_tokens bigint, cached_tokens bigint, llm_cost numeric,
  complete boolean, source text)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_before task_attempts;
  v_after task_attempts;
begin
  select a.* into v_before from task_attempts a where a.id = attempt;
  v_after := _settle_usage(
    v_before, input_tokens, output_tokens, cached_tokens, llm_cost, complete, source,
    (select g.output_share from agents g where g.id = v_before.agent_id));
  if v_after is distinct from v_before then
    perform _keep_attempt(v_after);
  end if;
  return (complete or coalesce(input_tokens, output_tokens, cached_tokens) is not null or llm_cost is not null)
    and (v_after.usage_complete, v_after.usage_source) = (complete, source);
end $$;

comment on function lakequeue._record_usage(bigint, bigint, bigint, bigint, numeric, boolean, text) is
  'Settles what an attempt used: complete beats incomplete, trace beats callback, else the larger.';
