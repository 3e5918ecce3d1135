-- What billing told of tasks, by task and currency: unknown is not 0, and a task is billed in full or it is not.
begin;
\ir scenarios.sql
select plan(9);

create function pg_temp.told(variadic attempts bigint[]) returns setof text language sql as $$
  select format('%s %s %s', c.currency, c.list_cost, case when c.unpriced then 'no price' else c.billed_runs::text end)
  from _task_compute(array(select task_of(a) from unnest(attempts) a)) c order by c.task_id, c.currency
$$;
select job_run(1, outcome => 'failure') as a \gset
select job_run(2) as b \gset
select is_empty(format('select pg_temp.told(%s, %s)', :a, :b), 'nothing was asked');
select bill(usage('1', 2));
select results_eq(format('select pg_temp.told(%s, %s)', :a, :b), $$values ('USD 2 1')$$, 'a run that billing knows, and one that it does not');
select bill(usage('1', 2), usage('1', 0.5, 'PHOTON'), usage('1', 3, day => '2026-01-02'), usage('1', 4, currency => 'EUR'), usage('2', 0));
select results_eq(format('select pg_temp.told(%s)', :a), $$values ('EUR 4 1'), ('USD 5.5 1')$$, 'SKUs and days are added up, currencies are not');
select results_eq(format('select pg_temp.told(%s)', :b), $$values ('USD 0 1')$$, '0 is known');
select results_eq(format('select pg_temp.told(%s, %s)', :a, :b), $$values ('EUR 4 1'), ('USD 5.5 1'), ('USD 0 1')$$, 'of several tasks');
select bill(usage('1', 2), usage('1', null, 'NEW'), usage('2', null));
select results_eq(format('select pg_temp.told(%s, %s)', :a, :b), $$values ('USD 2 no price')$$, 'where an amount has no price, no run is billed in full');
select bill(usage('1', 2));
select retry_task(task_of(:a), actor => 'ops') \gset
select claim(task_of(:a)) as again \gset
select record_runs(array[:again], array[3::bigint]) \gset
select results_eq(format('select pg_temp.told(%s)', :a), $$values ('USD 2 1')$$, 'a run that was not asked for is not billed');
select report(:again, 'success', '1') \gset
select bill(usage('3', 5));
select results_eq(format('select pg_temp.told(%s)', :a), $$values ('USD 7 2')$$, 'a task is what all its runs cost');

select not_for('test_reader', 'select lakequeue._task_compute(null)');
select * from finish();
rollback;
