-- The estimate of a document that is to be enqueued: as _estimate, but without its upper end, so that the table refuses
-- what is too much, and negative numbers.
create or replace function lakequeue._new_estimate(agent lakequeue.agents, page_count integer, document_bytes bigint)
returns bigint
language sql immutable
return greatest(ceil(lakequeue._bare_estimate(agent, page_count, document_bytes) * agent.estimate_factor::numeric), 1);

comment on function lakequeue._new_estimate(lakequeue.agents, integer, bigint) is
  'The estimate of a document that is to be enqueued.';
