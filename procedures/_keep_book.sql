-- Writes a page of the throttle's books. Its number is one higher than the last, so that readers meet the newest first.
--
-- endpoint_id, agent_id (null: the endpoint's own limits), raised: as _limits gave them; no: of the page that it replaces,
-- null for the first one. used, booked: as they are now.
-- Locks: the caller holds the throttle lock of the endpoint.
create or replace function lakequeue._keep_book(
  endpoint_id integer, agent_id integer, no bigint, used numeric[], booked numeric[], raised numeric[])
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if no is null then
    insert into throttle_books (scope, scope_id, no, used, booked, raised)
    values (case when agent_id is null then 'endpoint' else 'agent' end, coalesce(agent_id, endpoint_id), 1, used, booked, raised);
  else
    update throttle_books k
    set no = k.no + 1, used = _keep_book.used, booked = _keep_book.booked, raised = _keep_book.raised
    where k.scope = case when agent_id is null then 'endpoint' else 'agent' end
      and k.scope_id = coalesce(agent_id, endpoint_id) and k.no = _keep_book.no;
  end if;
end $$;

comment on function lakequeue._keep_book(integer, integer, bigint, numeric[], numeric[], numeric[]) is
  'Writes a page of the throttle''s books.';
