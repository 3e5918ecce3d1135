-- A number that came as text, of a run or an attempt: null for what is no whole number from 0 on, or larger than a bigint holds.
create or replace function lakequeue._whole_number(value text)
returns bigint
language sql immutable
return case
  when value ~ '^[0-9]{1,18}$' then value::bigint
  when value ~ '^[0-9]{19}$' and value <= '9223372036854775807' collate "C" then value::bigint end;

comment on function lakequeue._whole_number(text) is 'A number that came as text; null for what a bigint cannot hold.';
