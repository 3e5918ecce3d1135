-- The newest completed tasks of several agents, one more than the sample. Filters: test_confidence_summary, which reads
-- through it.
begin;
\ir scenarios.sql
select plan(4);

create temporary table done (id bigint);
insert into done select task_of(start()) from generate_series(1, 4);
do $$
declare
  v_task bigint;
begin
  for v_task in select d.id from done d order by d.id desc loop
    perform advance('1 minute');
    perform report((select a.id from task_attempts a where a.task_id = v_task), 'success', '1');
  end loop;
end $$;
create temporary table agents_of as select array_agg(agent_of(d.id)) as names from done d;
select results_eq('select n from agents_of a, _newest_completed(null, null, null, a.names, null, 10) n', 'select id from done order by id',
  'the newest first, over agents');
select results_eq('select n from agents_of a, _newest_completed(null, null, null, a.names, null, 2) n', 'select id from done order by id limit 3',
  'one more than the sample, which tells that there are more');
select refused('select _newest_completed(null, null, null, null, null, 0)', 'LQ400', 'no sample');
set session authorization test_reader;
select throws_ok('select lakequeue._newest_completed(null, null, null, null, null, 1)', '42501', null, 'it is internal');

select * from finish();
rollback;
