-- Noting the migration: the number is kept, repeats are harmless, and only the owner may do it.
begin;
select plan(7);

select lives_ok('select _set_schema_version(4711)', 'the owner notes a version');
select is((select schema_version from installation), 4711, 'it stands in the installation');
select lives_ok('select _set_schema_version(4711)', 'again changes nothing');
select is((select count(*) from installation), 1::bigint, 'there is still one installation');
select throws_ok('select _set_schema_version(null)', '23502', null, 'no number is refused');
select is((select schema_version from installation), 4711, 'and the number stays');

set session authorization test_operator;
select throws_ok('select _set_schema_version(1)', '42501', null, 'an operator may not set it');
set session authorization test_owner;

select * from finish();
rollback;
