-- How a fetch is getting on, and whether to go on.
begin;
\ir scenarios.sql
select plan(14);

select job_run(1);
create temporary table begun as select b.fetch_id as id from begin_compute_fetch('ops') b;
grant select on begun to public;
select is((select update_compute_fetch(id) from begun), 'running', 'go on');
select is((select update_compute_fetch(id, statement => 's-1', phase => 'waiting') from begun), 'running', 'it waits');
select is((select update_compute_fetch(id, phase => 'running') from begun), 'running', 'it runs');
select results_eq('select f.statement_id, f.phase from compute_fetches f', $$values ('s-1', 'running')$$, 'as is noted');
select advance('59 seconds');
select update_compute_fetch(id) from begun;
select advance('59 seconds');
select is((select update_compute_fetch(id) from begun), 'running', 'who is heard of is not lost');
select cancel_compute_fetch(id, 'ops') from begun;
select is((select update_compute_fetch(id) from begun), 'cancel', 'it is told to stop');
select is((select update_compute_fetch(id, problem => 'stopped') from begun), 'over', 'it ends');
select results_eq('select f.state, f.problem from compute_fetches f', $$values ('cancelled', 'stopped')$$, 'as cancelled, since somebody asked for that');
select is((select update_compute_fetch(id, problem => 'again') from begun), 'over', 'it ends once');

create temporary table second as select b.fetch_id as id from begin_compute_fetch('ops') b;
select update_compute_fetch(id, problem => ' ') from second;
select results_eq('select f.state, f.problem from compute_fetches f join second s on s.id = f.id', $$values ('failed', 'no reason given')$$, 'else as failed');
select refused('select update_compute_fetch(1, phase => ''late'')', 'LQ400', 'an unknown phase is refused');
select refused('select update_compute_fetch(-1)', 'LQ404', 'an unknown fetch is refused');
set session authorization test_web;
select is((select lakequeue.update_compute_fetch(id) from begun), 'over', 'the web process may');
set session authorization test_owner;
select not_for('test_reader', 'select lakequeue.update_compute_fetch(1)');

select * from finish();
rollback;
