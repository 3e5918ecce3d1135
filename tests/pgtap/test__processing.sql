-- What is processing, with its running attempt: all of it and nothing else, wherever it runs.
begin;
\ir scenarios.sql
select plan(9);

create function pg_temp.there() returns bigint[] language sql as $$ select array_agg(p.task_id order by p.task_id) from lakequeue._processing() p $$;
select is(pg_temp.there(), null, 'nothing');
select start() as one, start() as two \gset
select task_of(:one) as task_one, task_of(:two) as task_two, new_task() as waiting \gset
select is(pg_temp.there(), array[:task_one, :task_two]::bigint[], 'what runs, at all endpoints; not what waits');
select record_runs(array[:one::bigint], array[7]);
select cancel_task(:task_one, 'because');
select results_eq('select p.* from _processing() p where p.task_id = ' || :task_one,
  format('select t.id, t.agent_id, t.customer, t.document_path, t.created_at, t.locked_by, t.lease_expires_at, t.cancel_requested_at, a.id,
                 a.worker, a.run_id, a.job_id, a.started_at, a.checked_at
          from tasks t join task_attempts a on a.task_id = t.id where t.id = %s', :task_one), 'with what is known of it');
select is((select count(*) from _processing() p where p.run_id = 7 and p.cancel_requested_at is not null), 1::bigint, '(a run, asked to stop)');
-- one whose run is not known to have ended is not processing any more
select store_result(:two, token(:two), '{"x": 1}');
select is((select count(*) from _running(array(select e.id from model_endpoints e))), 2::bigint, '(it may still run)');
select is(pg_temp.there(), array[:task_one]::bigint[], 'the task is completed');
select report(:one, 'failure');
select is(pg_temp.there(), null, 'nor what was stopped');
select claim(:waiting) as three \gset
select is(pg_temp.there(), array[:waiting]::bigint[], 'what was claimed is');
set session authorization test_worker;
select throws_ok('select * from lakequeue._processing()', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
