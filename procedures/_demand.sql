-- What one more task of an agent asks of a minute. Of an agent that reserves its calls: what a run uses in a minute while
-- it need not wait (its run_tpm; the estimate until that is known). Of any other: its whole estimate, since its attempt
-- may spend it at any time. Input and output are split by the agent's output_share.
create or replace function lakequeue._demand(
  agent lakequeue.agents, estimated_tokens bigint, out tokens numeric, out input_tokens numeric, out output_tokens numeric)
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  tokens := case when agent.reserves_calls then coalesce(agent.run_tpm, estimated_tokens) else estimated_tokens end;
  output_tokens := ceil(tokens * agent.output_share::numeric);
  input_tokens := tokens - output_tokens;
end $$;

comment on function lakequeue._demand(lakequeue.agents, bigint) is 'What one more task of an agent asks of a minute.';
