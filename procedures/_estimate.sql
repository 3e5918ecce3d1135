-- The estimate of a document as things stand now: _bare_estimate times what the agent's completed tasks have taught. Made
-- anew at the claim, so that a backlog profits from what its first tasks taught. At least 1, so that what runs always
-- counts; at most 10^12.
create or replace function lakequeue._estimate(agent lakequeue.agents, page_count integer, document_bytes bigint)
returns bigint
language sql immutable
return greatest(least(ceil(lakequeue._bare_estimate(agent, page_count, document_bytes) * agent.estimate_factor::numeric), 1e12), 1);

comment on function lakequeue._estimate(lakequeue.agents, integer, bigint) is
  'The estimate of a document as things stand now.';
