-- What one more task of an agent asks of a minute, in the order of _kinds().
--
-- Of an agent that does not reserve its calls: its whole estimate, split by the agent's output_share, since its attempt
-- may spend it at any time. Of one that does: what a run uses in a minute, as its calls have taught (see _learn; the
-- estimate until then); never more than the limits per minute, since reserve_tokens lets no run use more.
--
-- agent, endpoint: the rows. estimated_tokens: of the task.
create or replace function lakequeue._demand(
  agent lakequeue.agents, endpoint lakequeue.model_endpoints, estimated_tokens bigint)
returns numeric[]
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_output numeric := ceil(estimated_tokens * agent.output_share::numeric);
  v_input numeric := estimated_tokens - v_output;
begin
  if not agent.reserves_calls then
    return array[1, estimated_tokens, v_input, v_output, 1];
  end if;
  v_input := coalesce(agent.run_input_tpm::numeric, v_input);
  v_output := coalesce(agent.run_output_tpm::numeric, v_output);
  return array[
    1,
    least(v_input + v_output, agent.max_tpm, endpoint.max_tpm),
    least(v_input, agent.max_input_tpm, endpoint.max_input_tpm, agent.max_tpm, endpoint.max_tpm),
    least(v_output, agent.max_output_tpm, endpoint.max_output_tpm, agent.max_tpm, endpoint.max_tpm),
    least(coalesce(agent.run_rpm::numeric, 1), agent.max_rpm, endpoint.max_rpm)];
end $$;

comment on function lakequeue._demand(lakequeue.agents, lakequeue.model_endpoints, bigint) is
  'What one more task of an agent asks of a minute, by kind.';
