-- Of endpoints whose throttle lock somebody else holds those where a dequeue may wait for it without looking first
-- (_with_room): the books say that half of every limit is left, or more, of each agent's as well. A look takes as long as half
-- a claim, and where many claim at once each of them would look, and claim then. A task that asks for more than half is found
-- out under the lock.
--
-- endpoints: ids, where one of the agents has something to claim. agents: ids of the agents served there. Returns ids, in the
-- order given; none without a limit. Locks: none.
create or replace function lakequeue._half_left(endpoints integer[], agents integer[])
returns integer[]
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
begin
  return array(
    select e.id
    from unnest(endpoints) with ordinality e(id, place)
    where (
      select bool_and(k.ceiling is null or coalesce(2 * greatest(k.used, k.booked) <= k.ceiling, false))
      from _booked(array[e.id]) b
      cross join lateral unnest(b.ceilings, b.used, b.booked) k(ceiling, used, booked)
      where coalesce(b.agent_id = any(_half_left.agents), true))
    order by e.place);
end $$;

comment on function lakequeue._half_left(integer[], integer[]) is
  'Of endpoints that somebody else holds those whose books leave half of every limit.';
