-- What billing told of a task leaves the group it stood in and enters the one it stands in now.
begin;
\ir scenarios.sql
select plan(8);

create temporary table seen (id bigint);
create function pg_temp.moved() returns setof text language sql as $$
  with fresh as (select d.* from lakequeue.compute_deltas d where d.id not in (select s.id from seen s)),
       noted as (insert into seen select f.id from fresh f)
  select format('%s %s %s %s %s %s', f.status, coalesce(f.day::text, 'live'), f.currency, f.tasks, f.priced, f.list_cost) from fresh f order by f.id
$$;
select job_run(1, outcome => 'failure') as a \gset
create temporary table failed as select t as task from tasks t where t.id = task_of(:a);
select _move_compute(task, task, 1, 1) from failed \gset
select is_empty('select pg_temp.moved()', 'nothing was told of it');
select bill(usage('1', 2));
select results_eq('select pg_temp.moved()', $$values ('failed 2026-01-01 USD 1 1 2')$$, 'billed, it enters');
select retry_task(task_of(:a), actor => 'ops') \gset
select results_eq('select pg_temp.moved()', $$values ('failed 2026-01-01 USD -1 -1 -2'), ('enqueued live USD 1 0 2')$$, 'retried, it leaves');
select claim(task_of(:a)) as again \gset
select results_eq('select pg_temp.moved()', $$values ('enqueued live USD -1 0 -2'), ('processing live USD 1 0 2')$$, 'claimed, it goes on');
select advance('1 day') \gset
select report(:again, 'success', '1', run_id => 2) \gset
select results_eq('select pg_temp.moved()', $$values ('processing live USD -1 0 -2'), ('completed 2026-01-02 USD 1 0 2')$$, 'finished, it enters, with a run that is not billed');
select is((select sum(d.list_cost) from compute_deltas d), 2.0, 'in all it is there once');
update task_attempts set run_id = null where id = :again;  -- as if it had never had one
select _note_change(t, t, (_task_usage(t.id))[:10] || 2.0, _task_usage(t.id)) from tasks t where t.id = task_of(:a) \gset
select results_eq('select pg_temp.moved()', $$values ('completed 2026-01-02 USD -1 0 -2'), ('completed 2026-01-02 USD 1 1 2')$$,
  'how many runs it has decides whether it is billed in full');

select not_for('test_worker', 'select lakequeue._move_compute(null, null, 0, 0)');
select * from finish();
rollback;
