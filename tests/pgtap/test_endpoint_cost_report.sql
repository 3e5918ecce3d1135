-- Model cost per endpoint and day: billed beside estimated.
begin;
\ir scenarios.sql
select plan(10);

create temporary table made as select agent_of(task_of(job_run(1, 0.25))) as agent;
select configure_agent(agent, model_endpoint => 'claude') from made;
create function pg_temp.told(agents text[] default null) returns setof text language sql as $$
  select concat_ws(' ', c.endpoint, c.day, c.currency, coalesce(trim_scale(c.billed)::text, '-'), coalesce(trim_scale(c.estimate)::text, '-')) from endpoint_cost_report(agents => told.agents) c
$$;
select results_eq('select pg_temp.told()', $$values ('claude 2026-01-01 USD - 0.25')$$, 'before billing is asked there is the estimate');
select bill(usage('claude', 3, kind => 'endpoint'), usage('claude', 1, 'CACHE', kind => 'endpoint'), usage('claude', 2, currency => 'EUR', kind => 'endpoint'),
            usage('claude', 9, kind => 'endpoint', day => '2025-12-31'), usage('1', 8));
select results_eq('select pg_temp.told()', $$values ('claude 2026-01-01 EUR 2 -'), ('claude 2026-01-01 USD 4 0.25'), ('claude 2025-12-31 USD 9 -')$$,
  'billed beside estimated, each currency apart');
select results_eq($$select c.day from endpoint_cost_report(from_day => '2026-01-01', to_day => '2026-01-01') c$$, $$values (date '2026-01-01'), ('2026-01-01')$$, 'of some days');
select is_empty(format($$select pg_temp.told(array[%L])$$, new_agent()), 'of agents that use the endpoint');
select fold_rollups();
select is((select count(*) from pg_temp.told() t where t like '% 0.25'), 1::bigint, 'estimates come from the rollups too');

create temporary table free as select agent_of(task_of(job_run(2, 0))) as agent;
create temporary table unknown as select agent_of(task_of(job_run(3, null))) as agent;
select results_eq('select pg_temp.told(array[agent]) from free', $$select agent || ' 2026-01-01 USD - 0' from free$$, 'an estimate of 0 is one');
select is_empty('select pg_temp.told(array[agent]) from unknown', 'what is not known is none');
select refused('select endpoint_cost_report(agents => ''{nobody}'')', 'LQ404', 'an unknown agent is refused');
set session authorization test_reader;
select lives_ok('select lakequeue.endpoint_cost_report()', 'a reader may look');
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.endpoint_cost_report()');

select * from finish();
rollback;
