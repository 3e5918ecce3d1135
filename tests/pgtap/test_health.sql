-- A row per check, the gravest first; where all is well nothing is told. The checks themselves are in the files of _queue_checks
-- and _server_checks; what needs open transactions or many connections is in tests/race/test_health.py.
begin;
\ir scenarios.sql
select plan(13);

update workers set stopped_at = '2000-01-01', heartbeat_at = '2000-01-01', started_at = '2000-01-01';
delete from task_events;
delete from task_deltas;

create function pg_temp.told(with_attention boolean default true) returns text[] language sql as $$
  select coalesce(array_agg(h.name || ' ' || h.status order by h.name), '{}') from lakequeue.health(with_attention) h
  where h.status <> 'ok' $$;

select is(pg_temp.told(), '{}', 'an idle installation without any worker is well');
select is(count(*), 22::bigint, 'a row per check') from health();
select is(count(*), 16::bigint, 'less what needs_attention tells') from health(with_attention => false);
select is(h.value, null, 'never swept is not 0') from health() h where h.name = 'sweep_age';

select enqueue_task(new_agent(), '/' || n) from generate_series(1, 2) n;
select results_eq('select h.name, h.status from health() h limit 3', $$values ('no_worker', 'alarm'), ('sweep_age', 'unknown'), ('breaker', 'ok')$$,
  'alarms first, then what cannot be told, then what is well');
select is((h.value, h.alarms_at, h.words is not null), (2::numeric, 1::numeric, true), 'what is wrong has words') from health() h where h.name = 'no_worker';
select is(count(*), 0::bigint, 'and nothing else has') from health() h where h.words is not null and h.status = 'ok';

-- --- who may ask ---------------------------------------------------------------------------------------------------------

set session authorization test_worker;
select is(count(*), 22::bigint, 'a worker may ask') from lakequeue.health();
set session authorization test_reader;
select is(count(*), 22::bigint, 'a reader') from lakequeue.health();
set session authorization test_web;
select is(count(*), 22::bigint, 'the web process') from lakequeue.health();
set session authorization test_operator;
select is(count(*), 22::bigint, 'an operator') from lakequeue.health();
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.health()');
select not_for('test_app', 'select lakequeue.health()');

select * from finish();
rollback;
