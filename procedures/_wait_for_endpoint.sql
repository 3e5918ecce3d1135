-- Waits for an endpoint's throttle lock. The limit is this function's own, so that no other lock its caller may need is
-- given up as early.
--
-- endpoint: its id. exclusive: or shared. at_most: how long, in milliseconds. Returns whether the lock is held.
-- Locks: the endpoint's throttle lock, until the transaction ends.
create or replace function lakequeue._wait_for_endpoint(endpoint integer, exclusive boolean, at_most integer)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set lock_timeout = 0  -- so that what set_config sets below ends with this function
as $$
begin
  perform set_config('lock_timeout', at_most::text, true);
  if exclusive then
    perform pg_advisory_xact_lock(_lock_class(), endpoint);
  else
    perform pg_advisory_xact_lock_shared(_lock_class(), endpoint);
  end if;
  return true;
exception when lock_not_available then
  return false;
end $$;

comment on function lakequeue._wait_for_endpoint(integer, boolean, integer) is 'Waits for an endpoint''s throttle lock, at most so long.';
