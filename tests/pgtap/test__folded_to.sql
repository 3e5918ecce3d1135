-- The mark behind which unfolded deltas begin: it follows the folds, and only they move it.
begin;
\ir scenarios.sql
select plan(13);

select is(_folded_to(), 0::bigint, 'at first it is before all');
create function pg_temp.drawn() returns bigint language sql as $$ select pg_sequence_last_value('lakequeue.task_deltas_id_seq') $$;
create function pg_temp.left_() returns bigint language sql as $$ select min(d.id) - 1 from lakequeue.task_deltas d $$;
create function pg_temp.book() returns text language sql as $$ select k::text from lakequeue.fold_books k $$;

select new_task() from generate_series(1, 5);
select is(_folded_to(), 0::bigint, 'writers do not move it');
select fold_rollups(2);
select is(_folded_to(), pg_temp.left_(), 'a part is folded: up to the oldest that is left');
select fold_rollups(2);
select is(_folded_to(), pg_temp.left_(), 'another part');
select fold_rollups();
select is(_folded_to(), pg_temp.drawn(), 'all: up to the newest id drawn');
select pg_temp.book() as book \gset
select fold_rollups();
select is(pg_temp.book(), :'book', 'where nothing has happened nothing is written');
select is((select count(*) from fold_books), 1::bigint, 'the book is one row');

-- what is undone
select nextval('lakequeue.task_deltas_id_seq') as lost \gset
savepoint a;
select new_task();
select fold_rollups();
select is(_folded_to(), pg_temp.drawn(), 'ids that nobody has used are passed');
rollback to a;
select ok(_folded_to() < :lost, 'it is undone with its fold');
select new_task();
select fold_rollups();
select is((select count(*) from task_deltas), 0::bigint, 'what comes then is folded');
select is(_folded_to(), pg_temp.drawn(), 'and passed');

-- without the book all is read
delete from fold_books;
select is(_folded_to(), 0::bigint, 'no book: anywhere');

set session authorization test_worker;
select throws_ok('select lakequeue._folded_to()', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
