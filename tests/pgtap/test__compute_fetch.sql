-- A fetch by its number; one that was silent for a minute is lost.
begin;
\ir scenarios.sql
select plan(6);

select job_run(1);
create temporary table begun as select b.fetch_id as id from begin_compute_fetch('ops') b;
select is((select (_compute_fetch(id)).state from begun), 'running', 'it runs');
select advance('59 seconds');
select is((select (_compute_fetch(id)).state from begun), 'running', 'also when little was heard of it');
select advance('1 second');
select results_eq($$select f.state, f.problem, f.ended_at from begun, _compute_fetch(id) f$$,
  $$values ('failed', 'the process that asked has stopped', _now())$$, 'after a minute it is lost');
select advance('1 hour');
select is((select (_compute_fetch(id)).ended_at from begun), _now() - interval '1 hour', 'which stays as it is');
select refused('select _compute_fetch(-1)', 'LQ404', 'an unknown one is refused');
select refused('select _compute_fetch(null)', 'LQ404', 'null too');

select * from finish();
rollback;
