-- Waits for an endpoint's throttle lock, 250 ms at most. The limit is this function's own, so that no other lock its
-- caller may need is given up as early.
--
-- endpoint: its id. exclusive: or shared. Returns whether the lock is held, until the transaction ends.
create or replace function lakequeue._wait_for_endpoint(endpoint integer, exclusive boolean)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set lock_timeout = '250ms'
as $$
begin
  if exclusive then
    perform pg_advisory_xact_lock(_lock_class(), endpoint);
  else
    perform pg_advisory_xact_lock_shared(_lock_class(), endpoint);
  end if;
  return true;
exception when lock_not_available then
  return false;
end $$;

comment on function lakequeue._wait_for_endpoint(integer, boolean) is 'Waits for an endpoint''s throttle lock, 250 ms at most.';
