-- Asking billing: what to ask for, one at a time, by operators.
begin;
\ir scenarios.sql
select plan(23);

select refused($$select begin_compute_fetch('ops')$$, 'LQ409', 'without a job there is nothing to ask for');
select job_run(1);
select advance('2 days');
select job_run(2);
select is((select array[b.joined::text, b.run_ids::text, b.usage_from::text, b.usage_to::text, b.more::text] from begin_compute_fetch('ops', from_day => '2026-01-02', to_day => '2026-01-03') b),
  array['false', '{2}', '2026-01-01', '2026-01-04', 'false'], 'runs under the filter, with the days around them');
select is((select b.joined from begin_compute_fetch('ops') b), true, 'who presses meanwhile joins');
select is((select count(*) from compute_fetches), 1::bigint, 'and begins nothing');
select results_eq($$select f.asked_by, f.runs, f.state, f.phase from compute_fetches f$$, $$values ('test_owner', 1, 'running', 'starting')$$, 'it is noted');
select results_eq($$select e.actor, e.detail ->> 'runs' from task_events e where e.kind = 'costs_asked'$$, $$values ('test_owner', '1')$$, 'as an event');
select advance('1 minute');
select is((select array[b.joined::text, b.run_ids::text, b.usage_from::text] from begin_compute_fetch('ops') b),
  array['false', '{1,2}', '2025-10-02'], 'one that is lost keeps nobody from asking');
select results_eq('select f.state from compute_fetches f order by f.id', $$values ('failed'), ('running')$$, 'it has failed');
select is((select count(*) from compute_runs where asked_at is null), 2::bigint, 'what is asked for is noted, without an answer');
select record_compute_cost((select max(id) from compute_fetches), 'w', '[]');
select is((select b.more from begin_compute_fetch('ops', batch_size => 1) b), true, 'more says that further runs wait');
select record_compute_cost((select max(id) from compute_fetches), 'w', '[]');
select is((select b.endpoints from begin_compute_fetch('ops') b), (select array_agg(g.name order by g.name) from agents g where g.job_id is not null),
  'endpoints are those of jobs');
select record_compute_cost((select max(id) from compute_fetches), 'w', '[]');

select configure_agent(g.name, job_id => 0) from agents g where g.job_id is not null;
select results_eq($$select b.run_ids, b.endpoints from begin_compute_fetch('ops') b$$, $$values ('{1,2}'::bigint[], '{}'::text[])$$,
  'runs of a job that was taken away are asked for as before');
select record_compute_cost((select max(id) from compute_fetches), 'w', '[]');
select advance('8 days');
select bill(usage('1', 1));
select refused($$select begin_compute_fetch('ops')$$, 'LQ409', 'until they are settled: then there is nothing to ask for again');
select configure_agent(g.name, job_id => 7) from agents g;

-- as where one run works for several tasks: billing's answer would be joined with each, and so be a multiple
select job_run(3), job_run(3);
select is((select b.run_ids from begin_compute_fetch('ops') b), '{3}', 'a run of two attempts is asked for once');
select bill();

select refused($$select begin_compute_fetch('ops', batch_size => 10001)$$, 'LQ400', 'too many are refused');
select refused($$select begin_compute_fetch('ops', statuses => '{gone}')$$, 'LQ400', 'an unknown status is refused');
select refused($$select begin_compute_fetch('ops', agents => '{nobody}')$$, 'LQ404', 'an unknown agent is refused');
set session authorization test_web;
select set_config('scenario.said', (select b.joined::text from lakequeue.begin_compute_fetch('ops') b), true);
select is(current_setting('scenario.said'), 'false', 'the web process may, for an operator');
select throws_ok($$select lakequeue.begin_compute_fetch('vic')$$, 'LQ403', null, 'not for anybody else');
select throws_ok($$select lakequeue.begin_compute_fetch()$$, 'LQ403', null, 'nor for nobody');
set session authorization test_operator;
select is((select b.joined from lakequeue.begin_compute_fetch() b), true, 'an operator may');
set session authorization test_owner;
select not_for('test_reader', 'select lakequeue.begin_compute_fetch()');
select not_for('test_worker', 'select lakequeue.begin_compute_fetch()');

select * from finish();
rollback;
