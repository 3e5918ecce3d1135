-- First key of every advisory lock that Lakequeue takes: the bytes of "lake". Second keys: an endpoint's id (the
-- throttle lock of that endpoint), and 0 and below, which stand under Locks in db/README.md.
create or replace function lakequeue._lock_class()
returns integer
language sql immutable
return x'6c616b65'::integer;

comment on function lakequeue._lock_class() is 'First key of all advisory locks of Lakequeue.';
