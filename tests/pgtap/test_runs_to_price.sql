-- Job runs whose cost may still change: of finished tasks, not settled; never asked for first.
begin;
\ir scenarios.sql
select plan(13);

create function pg_temp.runs(batch_size integer default 100) returns bigint[] language sql as
$$ select array_agg(r.run_id order by r.place) from runs_to_price(batch_size => runs.batch_size) with ordinality r(attempt_id, task_id, run_id, started_at, asked_at, place) $$;
select is(pg_temp.runs(), null, 'without runs there are none');
select job_run(1);
select is(pg_temp.runs(), '{1}', 'a run of a finished task');
select job_run(2, outcome => 'permanent_failure');
select job_run(3, job => null);
select record_runs(array[start()], array[4::bigint]);
select is(pg_temp.runs(), '{2,1}', 'a failed one too; no local run, none of a task that runs');
select bill();
select job_run(5);
select is(pg_temp.runs(), '{5,2,1}', 'those never asked for come first');
select is(pg_temp.runs(2), '{5,2}', 'so many at most');
select advance('7 days');
select bill();
select is(pg_temp.runs(), '{5,2,1}', 'an answer that knows nobody settles nobody: who asked may see no rows');
select bill(usage('1', 1));
select is(pg_temp.runs(), null, 'settled ones are not asked for again');
select job_run(6);
update installation set inherited_attempts = (select max(a.id) from task_attempts a);
select job_run(7);
select is(pg_temp.runs(), '{7}', 'nor are those that a copy inherited');

select refused('select runs_to_price(batch_size => 0)', 'LQ400', 'a batch of none is refused');
select refused('select runs_to_price(batch_size => null)', 'LQ400', 'null too');
select refused('select runs_to_price(agents => ''{nobody}'')', 'LQ404', 'an unknown agent is refused');
set session authorization test_reader;
select is((select count(*) from lakequeue.runs_to_price()), 1::bigint, 'a reader may look');
set session authorization test_owner;
select not_for('test_worker', 'select lakequeue.runs_to_price()');

select * from finish();
rollback;
