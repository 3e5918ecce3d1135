-- Whoever calls it writes to the log, so that the end of the transaction is waited for. That it is, tests/race/test_durable.py
-- shows by crashes.
begin;
\ir scenarios.sql
select plan(2);

select pg_current_wal_insert_lsn() as before \gset
select _flush_commits();
select ok(pg_current_wal_insert_lsn() > :'before', 'something is written');

set session authorization test_worker;
select throws_ok('select lakequeue._flush_commits()', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
