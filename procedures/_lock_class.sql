-- First key of every advisory lock that Lakequeue takes: the bytes of "lake". Second keys: an endpoint's id (the
-- throttle lock of that endpoint), 0 sweep_leases, -1 and -2 the guards of NOTIFY, -3 fold_rollups, -4 changes to
-- agents.
create or replace function lakequeue._lock_class()
returns integer
language sql immutable
return x'6c616b65'::integer;

comment on function lakequeue._lock_class() is 'First key of all advisory locks of Lakequeue.';
