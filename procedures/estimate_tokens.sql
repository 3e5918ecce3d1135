-- How many tokens a document will use: _bare_estimate, from its pages or else its size, times the agent's
-- estimate_factor, which its last completed tasks have taught (1.5 until then; see _learn and agent_status). Tasks are
-- estimated anew when they are claimed.
--
-- agent: its name. page_count: pages. document_bytes: size in bytes.
-- Errors: LQ404 unknown agent; LQ400 a negative number, or an estimate of more than 10^12 tokens.
create or replace function lakequeue.estimate_tokens(
  agent text, page_count integer default null, document_bytes bigint default null)
returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_agent agents := _agent(agent);
begin
  if page_count < 0 or document_bytes < 0
     or _bare_estimate(v_agent, page_count, document_bytes) * v_agent.estimate_factor::numeric > 1e12 then
    raise exception using errcode = 'LQ400',
      message = 'pages and bytes cannot be negative, nor make more than 10^12 tokens',
      hint = 'Leave out what is not known.';
  end if;
  return _estimate(v_agent, page_count, document_bytes);
end $$;

comment on function lakequeue.estimate_tokens(text, integer, bigint) is
  'Tokens that a document is expected to use at most, from its pages or its size.';
