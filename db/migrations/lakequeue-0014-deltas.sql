-- depends: lakequeue-0013-attempts
-- Rule 16: who reads deltas, or folds them, begins behind those that are known to be folded (db/README.md, "Held snapshots").
-- Who looks for what is processing, or presumed dead, reads what runs by its places: two indexes less to write.

set local role lakequeue_owner;

-- Like the other books: each change takes the next number, so that the newest row is always the first of its index.
create table lakequeue.fold_books (
  no bigint not null default 1 primary key,
  folded_to bigint not null default 0,
  noted bigint not null default 0,
  holders text[] not null default '{}'
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table lakequeue.fold_books is
  'One row: where the deltas begin that are not folded, so that readers pass few dead entries; without it: anywhere.';
comment on column lakequeue.fold_books.no is 'Rises with each change.';
comment on column lakequeue.fold_books.folded_to is 'Every delta up to this id is folded, and none will come.';
comment on column lakequeue.fold_books.noted is 'The newest id drawn when holders were looked up.';
comment on column lakequeue.fold_books.holders is
  'Who could then still commit a delta up to noted: the other writers of task_deltas; empty: nobody can any more.';

drop index lakequeue.tasks_processing, lakequeue.task_attempts_presumed_dead;
