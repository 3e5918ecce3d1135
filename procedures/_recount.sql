-- Counts what is spent of every limit at these endpoints and notes it in the books. From then on each admission adds
-- what it takes, so that the books hold an upper bound: what ends or leaves the window only lowers the truth, and what
-- reports raise is added when the books are read (_raised). So nothing need be counted until a bound leaves no room.
--
-- Locks: the caller holds the endpoints' throttle locks exclusively.
create or replace function lakequeue._recount(endpoints integer[])
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  perform _keep_book(l.endpoint_id, l.agent_id, l.no, l.used, l.booked, l.raised) from _limits(endpoints, false) l;
end $$;

comment on function lakequeue._recount(integer[]) is
  'Counts what is spent of every limit at these endpoints and notes it in the books.';
