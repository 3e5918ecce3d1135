-- A time as far as every client can tell it, as _in_calendar does with days: what lies before 2 January 1 or after 30 December
-- 9999, infinity too, is that day.
create or replace function lakequeue._tellable(at timestamptz)
returns timestamptz
language sql immutable
return greatest(least(at, '9999-12-30 00:00:00+00'::timestamptz), '0001-01-02 00:00:00+00'::timestamptz);

comment on function lakequeue._tellable(timestamptz) is 'A time, within what every client can tell.';
