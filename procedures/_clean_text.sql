-- Text from the outside world, made fit to be stored: cut to max_length characters, blank counts as not given.
-- What follows a million characters is not looked at: trimming would take a dozen bytes for each.
-- (U+0000 cannot reach a text parameter; _clean_json removes its escaped form.)
create or replace function lakequeue._clean_text(value text, max_length integer)
returns text
language sql immutable
return nullif(left(btrim(left(value, 1000000), E' \t\r\n'), max_length), '');

comment on function lakequeue._clean_text(text, integer) is 'Text cut to a length; blank becomes null.';
