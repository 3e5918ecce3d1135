-- Which of the attempts that run at an endpoint, or of its open calls, are to be moved, and what running_books says then. One
-- that goes on for long would hold back the place from which they are read, so it is moved when more than 250 have overtaken
-- it, and more than four times as many as there are. It goes to the places from 2^62 on, where it is overtaken only by what is
-- moved later. So most are moved once. That matters, since each move leaves a version of the row, which whoever looks it up
-- passes. The two numbers weigh that against what a read passes: as many entries of what has ended, and those since the last
-- note, below 2^62 and again from there on.
--
-- ids, places: of all that run, or are open, in any order. newest: the highest place below 2^62 so far. moved_before: how many
-- were moved so far. moved: those of the ids that have been moved just now, while their places are still the old ones; '{}' to
-- ask whom to move. (One that is locked cannot be, and holds the others back.)
-- Returns one row. to_move: ids. move_to: where to. place_from: the lowest place below 2^62, or newest if there is none.
-- overtaken: how many were moved so far. overtaken_from: the lowest place from 2^62 on, or null.
create or replace function lakequeue._overtaken(ids bigint[], places bigint[], newest bigint, moved_before bigint, moved bigint[])
returns table (to_move bigint[], move_to bigint, place_from bigint, overtaken bigint, overtaken_from bigint)
language sql immutable
rows 1
begin atomic
  select coalesce(array_agg(s.id) filter (
           where s.place < case when s.was_moved then (1::bigint << 62) + moved_before else newest end
                           - greatest(250, 4 * cardinality(ids))), '{}'),
         (1::bigint << 62) + moved_before,
         coalesce(min(s.place) filter (where not s.was_moved), newest),
         moved_before + cardinality(moved),
         coalesce(min(s.place) filter (where s.was_moved), case when moved <> '{}' then (1::bigint << 62) + moved_before end)
  from (
    select u.id, u.place, u.place >= 1::bigint << 62 as was_moved
    from unnest(ids, places) u(id, place)
    where u.id <> all(moved)) s;
end;

comment on function lakequeue._overtaken(bigint[], bigint[], bigint, bigint, bigint[]) is
  'Which of the attempts that run, or of the open calls, are to be moved, and what running_books says then.';
