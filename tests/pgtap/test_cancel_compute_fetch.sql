-- Asking to stop: by operators, noted once.
begin;
\ir scenarios.sql
select plan(10);

select job_run(1);
create temporary table begun as select b.fetch_id as id from begin_compute_fetch('ops') b;
grant select on begun to public;
set session authorization test_web;
select throws_ok('select lakequeue.cancel_compute_fetch((select id from begun), ''vic'')', 'LQ403', null, 'nobody but an operator may');
select is((select lakequeue.cancel_compute_fetch(id, 'ops') from begun), 'cancelling', 'an operator may');
set session authorization test_owner;
select is((select cancel_compute_fetch(id) from begun), 'cancelling', 'again is as well');
select results_eq('select f.state, f.cancelled_by from compute_fetches f', $$values ('running', 'ops')$$, 'the first one is noted');
select results_eq($$select e.actor, e.detail from task_events e where e.kind = 'costs_cancelled'$$,
  $$select 'ops', jsonb_build_object('fetch', id) from begun$$, 'once, as an event');
select refused('select record_compute_cost((select id from begun), ''w'', ''[]'')', 'LQ409', 'an answer that comes now is not recorded');
select advance('1 minute');
select is((select cancel_compute_fetch(id) from begun), 'over', 'one that is lost is over');
select is((select f.state from compute_fetches f), 'cancelled', 'it counts as cancelled');
select refused('select cancel_compute_fetch(-1)', 'LQ404', 'an unknown one is refused');
select not_for('test_reader', 'select lakequeue.cancel_compute_fetch(1)');

select * from finish();
rollback;
