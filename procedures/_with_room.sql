-- Of endpoints whose throttle lock somebody else holds those where a dequeue might claim something: a look at what waits and
-- at the limits, without their locks.
--
-- endpoints: ids. agents: ids of the agents served there. Returns ids, in the order given. Locks: none.
create or replace function lakequeue._with_room(endpoints integer[], agents integer[])
returns integer[]
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return array(
    select e.id
    from unnest(endpoints) with ordinality e(id, place)
    where (_admit(array[e.id], '{}', _with_room.agents, 1, false, only_look => true)).ids <> '{}'
    order by e.place);
end $$;

comment on function lakequeue._with_room(integer[], integer[]) is
  'Of endpoints that somebody else holds those where something might be claimed.';
