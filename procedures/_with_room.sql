-- Of endpoints whose throttle lock somebody else holds those where a dequeue might claim something: a look without their
-- locks, that changes nothing.
--
-- endpoints: ids. agents: ids of the agents served there. Returns ids, in the order given.
create or replace function lakequeue._with_room(endpoints integer[], agents integer[])
returns integer[]
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return array(
    select n.id
    from unnest(endpoints) with ordinality n(id, place)
    where case
      when exists (
        select from agents a join model_endpoints e on e.id = a.model_endpoint_id
        where a.id = any(_with_room.agents) and e.id = n.id and _limited(a, e))
      then (_admit(array[n.id], '{}', _with_room.agents, 1, false, only_look => true)).ids <> '{}'
      else exists (
        select from agents a where a.id = any(_with_room.agents) and a.model_endpoint_id = n.id and _has_claimable(a.id)) end
    order by n.place);
end $$;

comment on function lakequeue._with_room(integer[], integer[]) is 'Of endpoints that somebody else holds those where something might be claimed.';
