-- That the commit is waited for, tests/race/test_durable.py shows by crashes; here, what it does to the setting.
begin;
\ir scenarios.sql
select plan(4);

select _flush_at_commit();
select is(current_setting('synchronous_commit'), 'on', 'a commit that waits stays one');
set local synchronous_commit = local;
select _flush_at_commit();
select is(current_setting('synchronous_commit'), 'local', 'for what it waits is not its business');
set local synchronous_commit = off;
select _flush_at_commit();
select is(current_setting('synchronous_commit'), 'on', 'one that would not wait does now');

set session authorization test_worker;
select throws_ok('select lakequeue._flush_at_commit()', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
