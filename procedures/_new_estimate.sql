-- The estimate of a document that is to be enqueued. Errors: LQ400 a negative number, or more than 10^12 tokens.
create or replace function lakequeue._new_estimate(agent lakequeue.agents, page_count integer, document_bytes bigint)
returns bigint
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if page_count < 0 or document_bytes < 0
     or _bare_estimate(agent, page_count, document_bytes) * agent.estimate_factor::numeric > 1e12 then
    raise exception using errcode = 'LQ400',
      message = 'pages and bytes cannot be negative, nor make more than 10^12 tokens',
      hint = 'Leave out what is not known.';
  end if;
  return _estimate(agent, page_count, document_bytes);
end $$;

comment on function lakequeue._new_estimate(lakequeue.agents, integer, bigint) is
  'The estimate of a document that is to be enqueued.';
