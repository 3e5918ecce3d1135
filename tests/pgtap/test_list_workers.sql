-- Workers: which live, which were told to stop, which went silent or were lost, and what they hold.
begin;
\ir scenarios.sql
select plan(8);

update workers set stopped_at = '2000-01-01', heartbeat_at = '2000-01-01', started_at = '2000-01-01';
select worker_heartbeat('told', 'host', 7, '1.0'), worker_heartbeat('dead'), worker_heartbeat('w1'), worker_heartbeat('mute') \gset
select advance('10 s') \gset
select worker_heartbeat('told', stopping => true) \gset
select advance('70 s') \gset
select worker_heartbeat('w1') \gset
select start() as a \gset
update workers set stopped_at = _now() where name = 'dead';
select results_eq('select worker, state, processing from list_workers() order by worker',
  $$values ('dead', 'lost', 0::bigint), ('mute', 'silent', 0), ('told', 'stopped', 0), ('w1', 'alive', 1)$$, 'four that differ');
select results_eq('select host, pid, version, heartbeat_at from list_workers() where worker = ''told''',
  $$values ('host', 7, '1.0', '2026-01-01 12:00:10+00'::timestamptz)$$, 'with what they said of themselves');
select is((select w.worker from list_workers() w limit 1), 'w1', 'the newest sign of life first');
select sweep_leases() \gset
select is((select w.state from list_workers() w where w.worker = 'mute'), 'lost', 'once swept, silent ones are lost');
select advance('25 hours') \gset
select is((select array_agg(w.worker) from list_workers() w), '{w1}', 'after a day only those that did not end are told');
select is((select w.state from list_workers() w), 'silent', 'whatever their state');
set session authorization test_reader;
select lives_ok('select lakequeue.list_workers()', 'a reader may ask');
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.list_workers()');

select * from finish();
rollback;
