-- The estimate as configured, before what was learnt: tokens_per_task + pages * tokens_per_page. Where nobody counted
-- pages, 50 kB of document count as one (a page of text with its fonts; scans are larger, so this errs on the high
-- side); where nothing is known, one page.
create or replace function lakequeue._bare_estimate(agent lakequeue.agents, page_count integer, document_bytes bigint)
returns numeric
language sql immutable
return agent.tokens_per_task
  + agent.tokens_per_page * coalesce(page_count, greatest(1, ceil(document_bytes / 50000.0)), 1);

comment on function lakequeue._bare_estimate(lakequeue.agents, integer, bigint) is
  'The estimate as configured, before what was learnt.';
