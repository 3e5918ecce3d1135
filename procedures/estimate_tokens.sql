-- How many tokens a document will use: tokens_per_task + pages * tokens_per_page, both of the agent. Where nobody
-- counted pages, 50 kB of document count as one (a page of text with its fonts; scans are larger, so this errs on the
-- high side); where nothing is known, one page. At least 1, so that what runs always counts.
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
  v_pages numeric := coalesce(page_count, greatest(1, ceil(document_bytes / 50000.0)), 1);
  v_tokens numeric := v_agent.tokens_per_task + v_agent.tokens_per_page * v_pages;
begin
  if page_count < 0 or document_bytes < 0 or v_tokens > 1e12 then
    raise exception using errcode = 'LQ400',
      message = 'pages and bytes cannot be negative, nor make more than 10^12 tokens',
      hint = 'Leave out what is not known.';
  end if;
  return greatest(v_tokens, 1);  -- never nothing: what runs must count
end $$;

comment on function lakequeue.estimate_tokens(text, integer, bigint) is
  'Tokens that a document is expected to use at most, from its pages or its size.';
