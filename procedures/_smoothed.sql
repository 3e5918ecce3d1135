-- What is known of an agent's pace after one more look: the mean of what was known and what was measured. Where they differ
-- by no more than a twentieth it stays as it was, so that the agent's row needs no new version (see _learn). Below a
-- thousandth it is 0, or halving it again and again would be an underflow of its type in the end (22003).
--
-- known: null if nothing is. measured: of the last minute.
create or replace function lakequeue._smoothed(known real, measured double precision)
returns real
language sql immutable
return case
  when known is null then measured
  when abs(measured - known) <= known / 20 then known
  when known + measured < 0.001 then 0
  else (known + measured) / 2
end;

comment on function lakequeue._smoothed(real, double precision) is 'What is known of an agent''s pace after one more look.';
