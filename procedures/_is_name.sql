-- Whether a text is a name for something configured: 1 to 200 characters on one line, without blanks around; null is none.
create or replace function lakequeue._is_name(value text)
returns boolean
language sql immutable
return coalesce(value = lakequeue._clean_text(value, 200) and value !~ '[[:cntrl:]]', false);

comment on function lakequeue._is_name(text) is 'Whether a text is a name for something configured.';
