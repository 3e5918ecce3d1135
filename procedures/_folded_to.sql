-- Up to which id all deltas are folded, and none will come any more (fold_books): whoever reads unfolded ones begins behind
-- it, so that it passes few entries of folded ones, which a snapshot held by somebody else keeps. STABLE: it sees what the
-- statement sees that calls it; one that is older than the deltas read with it is smaller, which is right as well.
create or replace function lakequeue._folded_to()
returns bigint
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
set enable_seqscan = off
as $$
begin
  return coalesce((select k.folded_to from fold_books k order by k.no desc limit 1), 0);
end $$;

comment on function lakequeue._folded_to() is 'Up to which id all deltas are folded.';
