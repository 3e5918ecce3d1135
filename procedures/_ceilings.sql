-- The limits as configured at an endpoint: its own (agent_id null), and those of one agent there, or of all of them.
--
-- at_endpoint: the endpoint's id. only_agent: an agent's id, null for all.
-- Returns kind: tasks, tokens, input_tokens, output_tokens, requests; all but the first per minute.
create or replace function lakequeue._ceilings(at_endpoint integer, only_agent integer)
returns table (endpoint_id integer, agent_id integer, kind text, ceiling bigint)
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
begin
  return query
    select h.endpoint_id, h.agent_id, l.kind, l.ceiling
    from (
      select e.id as endpoint_id, null::integer as agent_id, e.max_concurrent_tasks::bigint, e.max_tpm, e.max_input_tpm,
             e.max_output_tpm, e.max_rpm
      from model_endpoints e
      where e.id = at_endpoint
      union all
      select a.model_endpoint_id, a.id, a.max_concurrent_tasks, a.max_tpm, a.max_input_tpm, a.max_output_tpm, a.max_rpm
      from agents a
      where a.model_endpoint_id = at_endpoint and (only_agent is null or a.id = only_agent)
    ) h
    cross join lateral (values ('tasks', h.max_concurrent_tasks), ('tokens', h.max_tpm), ('input_tokens', h.max_input_tpm),
                               ('output_tokens', h.max_output_tpm), ('requests', h.max_rpm)) l(kind, ceiling)
    where l.ceiling is not null;
end $$;

comment on function lakequeue._ceilings(integer, integer) is 'The limits as configured at an endpoint.';
