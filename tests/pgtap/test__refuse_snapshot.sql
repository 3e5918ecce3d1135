-- Who decides by what others have done refuses a transaction with one snapshot for all it does. Which functions do, and what
-- they would get wrong: tests/race/test_snapshots.py.
begin;
set transaction isolation level repeatable read;
\ir scenarios.sql
select plan(5);

select throws_ok('select _refuse_snapshot(''this'')', 'LQ428', 'this cannot run in a repeatable read transaction', 'it says who and why');
create function pg_temp.hint() returns text language plpgsql as $$
declare
  v_hint text;
begin
  perform lakequeue._refuse_snapshot('this');
exception when others then
  get stacked diagnostics v_hint = pg_exception_hint;
  return v_hint;
end $$;
select matches(pg_temp.hint(), '^Call it under READ COMMITTED: .*default_transaction_isolation', 'and what to do');
select throws_ok('select * from dequeue_tasks(null)', 'LQ428', 'dequeue_tasks cannot run in a repeatable read transaction',
  'before anything else is looked at');
select throws_ok('select * from cancel_task(null)', 'LQ428', 'cancel_tasks cannot run in a repeatable read transaction',
  'one task is as many');
select not_for('test_worker', 'select lakequeue._refuse_snapshot(null)');

select * from finish();
rollback;
