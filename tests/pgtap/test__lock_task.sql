-- The task of a report is locked with its token checked; test_record_callback.sql, test_store_result.sql and the races have
-- what waits for the lock.
begin;
\ir scenarios.sql
select plan(6);
select start() as a \gset
select is((_lock_task(:a, token(:a))).id, task_of(:a), 'the task of the attempt');
select throws_ok(format('select _lock_task(%s, ''x'')', :a), 'LQ401', null, 'a wrong token is refused');
select throws_ok(format('select _lock_task(%s, null)', :a), 'LQ401', null, 'so is none');
select throws_ok(format('select _lock_task(-1, token(%s))', :a), 'LQ404', null, 'so is an unknown attempt');
select throws_ok('select _lock_task(null, null)', 'LQ404', null, 'and none');
select not_for('test_agent', 'select lakequeue._lock_task(1, null)');
select * from finish();
rollback;
