-- The newest fetch, in one row.
begin;
\ir scenarios.sql
select plan(8);

create function pg_temp.said() returns text language sql as $$
  select concat_ws(' ', s.state, s.phase, extract(epoch from s.elapsed)::integer, s.runs, s.billed, s.problem, s.as_of at time zone 'UTC') from compute_fetch_status() s
$$;
select is(pg_temp.said(), 'never', 'there was none');
select job_run(1);
select begin_compute_fetch('ops');
select advance('20 seconds');
select is(pg_temp.said(), 'running starting 20 1', 'one runs');
select record_compute_cost((select max(id) from compute_fetches), 'w', json_build_array(usage('1', 1)));
select advance('1 hour');
select is(pg_temp.said(), 'done starting 20 1 1 2026-01-01 12:00:20', 'it is done');
select begin_compute_fetch('ops');
select advance('5 seconds');
select update_compute_fetch((select max(id) from compute_fetches), problem => 'no');
select is(pg_temp.said(), 'failed starting 5 1 no 2026-01-01 12:00:20', 'another has failed; the last good one is remembered');
select begin_compute_fetch('ops');
select advance('5 minutes');
select is(pg_temp.said(), 'failed starting 0 1 the process that asked has stopped 2026-01-01 12:00:20', 'one that is lost is told as failed');
select is((select s.asked_by from compute_fetch_status() s), 'test_owner', 'with who asked');

set session authorization test_reader;
select is((select s.state from lakequeue.compute_fetch_status() s), 'failed', 'a reader may look');
set session authorization test_owner;
select not_for('test_worker', 'select lakequeue.compute_fetch_status()');

select * from finish();
rollback;
