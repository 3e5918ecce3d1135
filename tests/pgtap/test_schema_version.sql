-- The version that programs compare with their own: everybody who works with the database can read it.
begin;
select plan(9);

select cmp_ok(schema_version(), '>', 0, 'an installed database has a version');
select _set_schema_version(4711);
select is(schema_version(), 4711, 'it is what migrate has noted');

set session authorization test_app;
select is(schema_version(), 4711, 'an application can read it');
set session authorization test_web;
select is(schema_version(), 4711, 'the web process can');
set session authorization test_worker;
select is(schema_version(), 4711, 'a worker can');
set session authorization test_agent;
select is(schema_version(), 4711, 'an agent can');
set session authorization test_operator;
select is(schema_version(), 4711, 'an operator can');
set session authorization test_reader;
select is(schema_version(), 4711, 'a reader can');
set session authorization test_stranger;
select throws_ok('select lakequeue.schema_version()', '42501', null, 'a login without a role cannot');
set session authorization test_owner;

select * from finish();
rollback;
