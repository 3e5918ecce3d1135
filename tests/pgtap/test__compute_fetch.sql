-- A fetch by its number; one that was silent for a minute is lost.
begin;
\ir scenarios.sql
select plan(11);

select job_run(1);
create temporary table begun as select b.fetch_id as id from begin_compute_fetch('ops') b;
select is((select (_compute_fetch(id)).state from begun), 'running', 'it runs');
select advance('59 seconds');
select is((select (_compute_fetch(id)).state from begun), 'running', 'also when little was heard of it');
select advance('1 second');
select results_eq($$select f.state, f.problem, f.ended_at from begun, _compute_fetch(id) f$$,
  $$values ('failed', 'the process that asked has stopped', _now() - interval '1 minute')$$, 'after a minute it is lost, when it was last heard of');
select advance('1 hour');
select is((select (_compute_fetch(id)).ended_at from begun), _now() - interval '1 hour 1 minute', 'which stays as it is');

-- compute_fetch_status says so before anybody ends it.
create function pg_temp.shown() returns jsonb language sql as $$ select to_jsonb(s) from lakequeue.compute_fetch_status() s $$;
select b.fetch_id as second from begin_compute_fetch('ops') b \gset
select advance('20 seconds');
select is(cancel_compute_fetch(:second, 'ops'), 'cancelling', 'one that somebody asked to stop');
select advance('61 seconds');
create temporary table said as select pg_temp.shown() as shown;
select is((select f.state from compute_fetches f where f.id = :second), 'running', '(nobody has ended it)');
select is((_compute_fetch(:second)).state, 'cancelled', 'is cancelled when it is lost');
select is(pg_temp.shown(), s.shown, 'as it was shown before') from said s;
select is(s.shown ->> 'state', 'cancelled', 'too') from said s;
select refused('select _compute_fetch(-1)', 'LQ404', 'an unknown one is refused');
select refused('select _compute_fetch(null)', 'LQ404', 'null too');

select * from finish();
rollback;
