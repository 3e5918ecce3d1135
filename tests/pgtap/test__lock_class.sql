-- The first key of all advisory locks: a constant of Lakequeue's own, whatever the caller does.
begin;
select plan(4);

select is(_lock_class(), x'6c616b65'::integer, 'it is the bytes of "lake"');
select is(
  convert_from(int4send(_lock_class()), 'UTF8'), 'lake',
  'which can be recognised in pg_locks');
select volatility_is('lakequeue', '_lock_class', array[]::name[], 'immutable', 'it never changes');

set session authorization test_worker;
select throws_ok('select _lock_class()', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
