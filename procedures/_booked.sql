-- Every limit that applies at these endpoints, with the newest page of its book: an upper bound of what is spent of it, but
-- for what reports have raised since (_limits adds that). It becomes a part of the statement that asks, where bitmap scans
-- have to be off: the newest page is the first of its index, a bitmap, which statistics of so few rows suggest, would read
-- all.
--
-- endpoints: ids, each once. Returns a row per endpoint and per agent that has limits: agent_id, null for the endpoint's own;
--   ceilings, by kind (see _kinds), null where there is no limit; used, booked, raised and no: of the page, each null if
--   there is none, used and booked with null for what the books do not know.
create or replace function lakequeue._booked(endpoints integer[])
returns table (
  endpoint_id integer, agent_id integer, ceilings bigint[], used numeric[], booked numeric[], raised numeric[], no bigint)
language sql stable
begin atomic
  select h.endpoint_id, h.agent_id, h.ceilings, b.used, b.booked, b.raised, b.no
  from (
    select e.id as endpoint_id, null::integer as agent_id, 'endpoint' as scope, e.id as scope_id,
           array[e.max_concurrent_tasks, e.max_tpm, e.max_input_tpm, e.max_output_tpm, e.max_rpm] as ceilings
    from lakequeue.model_endpoints e
    where e.id = any(endpoints)
      and coalesce(e.max_concurrent_tasks, e.max_tpm, e.max_input_tpm, e.max_output_tpm, e.max_rpm) is not null
    union all
    select a.model_endpoint_id as endpoint_id, a.id as agent_id, 'agent' as scope, a.id as scope_id,
           array[a.max_concurrent_tasks, a.max_tpm, a.max_input_tpm, a.max_output_tpm, a.max_rpm] as ceilings
    from lakequeue.agents a
    where a.model_endpoint_id = any(endpoints)
      and coalesce(a.max_concurrent_tasks, a.max_tpm, a.max_input_tpm, a.max_output_tpm, a.max_rpm) is not null) h
  left join lateral (
    select k.no, k.used, k.booked, k.raised
    from lakequeue.throttle_books k
    where k.scope = h.scope and k.scope_id = h.scope_id
    order by k.no desc limit 1) b on true;
end;

comment on function lakequeue._booked(integer[]) is
  'Every limit that applies at these endpoints, with the newest page of its book.';
