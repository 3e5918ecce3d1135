-- A day of a filter, as far as times in every zone can tell it: what lies before 2 January 1 or after 30 December 9999,
-- infinity too, is that day. Clients have no type for more, and PostgreSQL's own end would be an error.
create or replace function lakequeue._in_calendar(day date)
returns date
language sql immutable strict
set search_path = pg_catalog, lakequeue, pg_temp
as $$ select greatest(least(day, date '9999-12-30'), date '0001-01-02') $$;

comment on function lakequeue._in_calendar(date) is 'A day of a filter, within what every client can tell.';
