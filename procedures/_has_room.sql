-- Whether a limit per minute has room for one more task (rule 4).
--
-- Of an agent that reserves its calls, while less than the limit is booked: its calls keep the window themselves, and the
-- last task that starts may wait a little so that the quota is used to the end. Of any other agent, if its whole demand
-- fits beside what is used and what is booked; one larger than the limit when nothing is: it runs alone and paces itself
-- (rule 4c).
create or replace function lakequeue._has_room(
  reserves_calls boolean, used numeric, booked numeric, ceiling numeric, demand numeric)
returns boolean
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if reserves_calls then
    return booked < ceiling;
  end if;
  return greatest(used, booked) + demand <= ceiling or greatest(used, booked) = 0;
end $$;

comment on function lakequeue._has_room(boolean, numeric, numeric, numeric, numeric) is
  'Whether a limit per minute has room for one more task.';
