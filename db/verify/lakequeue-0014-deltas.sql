-- The book of folds. Ids of deltas are drawn one by one: a session that kept some for later could commit one below the mark.
select no, folded_to, noted, holders from lakequeue.fold_books where false;
do $$
begin
  assert (select s.seqcache = 1 from pg_sequence s where s.seqrelid = 'lakequeue.task_deltas_id_seq'::regclass), 'ids are drawn in advance';
end $$;
