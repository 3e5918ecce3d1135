-- Whether any limit applies to an agent's tasks: one of its own or its endpoint's.
create or replace function lakequeue._limited(agent lakequeue.agents, endpoint lakequeue.model_endpoints)
returns boolean
language sql immutable
return coalesce(
  endpoint.max_concurrent_tasks, endpoint.max_tpm, endpoint.max_input_tpm, endpoint.max_output_tpm, endpoint.max_rpm,
  agent.max_concurrent_tasks, agent.max_tpm, agent.max_input_tpm, agent.max_output_tpm, agent.max_rpm) is not null;

comment on function lakequeue._limited(lakequeue.agents, lakequeue.model_endpoints) is 'Whether any limit applies to an agent''s tasks.';
