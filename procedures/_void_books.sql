-- Limits, estimates or the place of an agent have changed: what the books say of these endpoints and their agents must be
-- counted anew, and what has been passed over for too long be looked for.
--
-- Locks: the pages. Where the caller does not hold an endpoint's throttle lock (one that an agent has left, where its
-- attempts still count), a dequeue that is writing there comes first, and its page is void all the same.
create or replace function lakequeue._void_books(endpoints integer[])
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  update throttle_books k
  set no = k.no + 1, used = null, booked = null
  where (k.scope = 'endpoint' and k.scope_id = any(endpoints))
     or (k.scope = 'agent' and k.scope_id = any(array(select a.id from agents a where a.model_endpoint_id = any(endpoints))));
  update model_endpoints e set overdue_at = _now() where e.id = any(endpoints);
end $$;

comment on function lakequeue._void_books(integer[]) is 'What the books say of these endpoints must be counted anew.';
