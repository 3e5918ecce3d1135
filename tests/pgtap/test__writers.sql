-- Who else writes a table: not the caller. What others do meanwhile is tests/race/test_deltas.py's and test_lanes.py's.
begin;
select plan(6);

create temporary table mine (n integer);
insert into mine values (1);
select is((select bool_and(l.granted) from pg_locks l where l.relation = 'mine'::regclass and l.mode = 'RowExclusiveLock'), true, '(the lock is there)');
select results_eq($$select names, some_left from _writers('mine', '{}')$$, $$values ('{}'::text[], false)$$, 'the caller is none of them');
select results_eq(
  format($$select names, some_left from _writers('mine', array[%L, '3/77'])$$,
         (select l.virtualtransaction from pg_locks l where l.relation = 'mine'::regclass and l.mode = 'RowExclusiveLock')),
  $$values ('{}'::text[], false)$$, 'not even if it was noted, by whatever name; nor is anybody left who has ended');
select results_eq($$select names, some_left from _writers('mine', null)$$, $$values ('{}'::text[], null::boolean)$$, 'of nobody noted nothing is said');
select results_eq($$select names, some_left from _writers('lakequeue.tasks', '{}')$$, $$values ('{}'::text[], false)$$, 'nobody writes');

set session authorization test_worker;
select throws_ok($$select lakequeue._writers('pg_class', '{}')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
