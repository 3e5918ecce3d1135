-- A confidence as it is stored: a product of many probabilities may be smaller than a real can tell from 0.
create or replace function lakequeue._confidence(value double precision)
returns real
language sql immutable
return (case when value < 1e-37 then 0 else value end)::real;

comment on function lakequeue._confidence(double precision) is 'A confidence as it is stored; what a real cannot tell from 0 is 0.';
