-- The compute of tasks by the groups they stand in: finished ones on the day they finished, live ones on none.
begin;
\ir scenarios.sql
select plan(5);

update installation set time_zone = 'Asia/Tokyo';
create function pg_temp.told(tasks bigint[] default null) returns setof text language sql as $$
  select format('%s %s %s %s %s/%s %s', g.customer, g.status, g.day, g.currency, g.priced, g.tasks, g.list_cost)
  from _compute_groups(coalesce(told.tasks, array(select t.id from tasks t))) g order by 1
$$;
select job_run(1) as a \gset
update tasks set agent_id = (select min(g.id) from agents g);  -- each has one of its own
select is_empty('select pg_temp.told()', 'what was not billed is in none');
select set_clock('2026-01-01 16:00+00') \gset
select job_run(2) as b \gset
select job_run(3) as c \gset
select job_run(4, outcome => 'failure') as d \gset
update tasks set agent_id = (select min(g.id) from agents g);
select bill(usage('1', 1), usage('2', 2), usage('3', 4), usage('3', 0.5, currency => 'EUR'), usage('3', null, 'NEW'), usage('4', 8));
select results_eq('select pg_temp.told()', $$values ('acme completed 2026-01-01 USD 1/1 1'), ('acme completed 2026-01-02 EUR 0/1 0.5'),
  ('acme completed 2026-01-02 USD 1/2 6'), ('acme failed 2026-01-02 USD 1/1 8')$$, 'by status, day in the reporting time zone and currency');
select results_eq(format('select pg_temp.told(array[%s])', task_of(:c)),
  $$values ('acme completed 2026-01-02 EUR 0/1 0.5'), ('acme completed 2026-01-02 USD 0/1 4')$$, 'of these tasks only');
select retry_task(task_of(:d), actor => 'ops') \gset
select results_eq(format('select pg_temp.told(array[%s])', task_of(:d)), $$values ('acme enqueued  USD 0/1 8')$$, 'a live task is not billed in full');

select not_for('test_reader', 'select lakequeue._compute_groups(null)');
select * from finish();
rollback;
