-- Whether a limit has room for one more task (rules 3 and 4). What is not known has none: it must be counted.
--
-- Of an agent that reserves its calls, a limit per minute has room while less than the limit is booked: its calls keep
-- the window themselves, and the last task that starts may wait a little so that the quota is used to the end. Of any
-- other agent, if its whole demand fits beside what is used and what is booked; one larger than the limit when nothing
-- is: it runs alone and paces itself (rule 4c).
--
-- kind: see _kinds. ceiling: null where there is no limit.
create or replace function lakequeue._has_room(
  kind integer, reserves_calls boolean, ceiling bigint, used numeric, booked numeric, demand numeric)
returns boolean
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return case
    when ceiling is null then true
    when kind = 1 then coalesce(used < ceiling, false)
    when reserves_calls then coalesce(booked < ceiling, false)
    else coalesce(greatest(used, booked) + demand <= ceiling or greatest(used, booked) = 0, false) end;
end $$;

comment on function lakequeue._has_room(integer, boolean, bigint, numeric, numeric, numeric) is
  'Whether a limit has room for one more task.';
