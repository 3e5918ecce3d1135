-- worker_heartbeat: a row per worker, made by its first call, kept by the next ones, closed by the last.
begin;
\ir scenarios.sql
select plan(33);

select is(worker_heartbeat('w', 'host-1', 42, '1.0'), schema_version(), 'it returns the schema version');
select row_is(to_jsonb(w), '{"name": "w", "host": "host-1", "pid": 42, "version": "1.0", "started_at": "2026-01-01T12:00:00+00:00",
  "heartbeat_at": "2026-01-01T12:00:00+00:00", "stopped_at": null}', 'the first call makes the row')
from (select null) one left join workers w on w.name = 'w';
select advance('10 s') \gset
select worker_heartbeat('w') \gset
select row_is(to_jsonb(w), '{"host": "host-1", "pid": 42, "version": "1.0", "started_at": "2026-01-01T12:00:00+00:00",
  "heartbeat_at": "2026-01-01T12:00:10+00:00", "stopped_at": null}', 'the next ones keep it, and what was said before') from workers w where w.name = 'w';
select worker_heartbeat('w', version => '1.1') \gset
select row_is(to_jsonb(w), '{"host": "host-1", "version": "1.1"}', 'what is said anew counts') from workers w where w.name = 'w';
select advance('10 s') \gset
select worker_heartbeat('w', stopping => true) \gset
select row_is(to_jsonb(w), '{"heartbeat_at": "2026-01-01T12:00:20+00:00", "stopped_at": "2026-01-01T12:00:20+00:00", "started_at": "2026-01-01T12:00:00+00:00"}',
              'the last one closes it') from workers w where w.name = 'w';
select worker_heartbeat('w') \gset
select is(w.stopped_at, null, 'who speaks again lives') from workers w where w.name = 'w';
select worker_heartbeat('brief', stopping => true) \gset
select row_is(to_jsonb(w), '{"stopped_at": "2026-01-01T12:00:20+00:00"}', 'one may stop with its first call') from (select null) one left join workers w on w.name = 'brief';
select worker_heartbeat('unsure', null, null, null, null) \gset
select row_is(to_jsonb(w), '{"host": null, "pid": null, "version": null, "stopped_at": null}', 'everything but the name may be null')
from (select null) one left join workers w on w.name = 'unsure';
select is(count(*), 3::bigint, 'a row per worker') from workers;

-- where it runs agents
select is(w.relay, null, 'a worker need not say where it runs agents') from workers w where w.name = 'w';
select worker_heartbeat('w', relay => 'databricks'), worker_heartbeat('w') \gset
select is(w.relay, 'databricks', 'what it has said stays') from workers w where w.name = 'w';
select worker_heartbeat('w', relay => 'local') \gset
select is(w.relay, 'local', 'until it says otherwise') from workers w where w.name = 'w';
select refused(format('select worker_heartbeat(''w'', relay => %L)', relay), 'LQ400', 'no relay: ' || relay) from unnest(array['cloud', '']) relay;

-- it is a sign of life and nothing more
select start() as a \gset
select task_of(:a) as task \gset
select t.lease_expires_at as lease from tasks t where t.id = :task \gset
select advance('1 min') \gset
select worker_heartbeat('w1') \gset
select is(t.lease_expires_at, :'lease', 'it extends no lease') from tasks t where t.id = :task;

-- names
select refused(format('select worker_heartbeat(%s)', v.name), 'LQ400', v.description)
from (values ('null', 'no name'), ('''''', 'an empty name'), ('''  ''', 'a blank name'), (''' w''', 'a blank before it'), ('''w ''', 'a blank after it'),
             ('E''w\n''', 'a line end'), ('repeat(''x'', 201)', 'a long name')) v(name, description);
select lives_ok('select worker_heartbeat(repeat(''é'', 200))', '200 characters are not too many');
select lives_ok('select worker_heartbeat(''w3'', '''', 2147483647, repeat(''v'', 100000))', 'what is shown to people may be anything');
select lives_ok('select worker_heartbeat(''w4'', pid => -2147483648)', 'also a pid');
select is(count(*), 7::bigint, 'each made its row, no other call did') from workers;

set session authorization test_worker;
select is(worker_heartbeat('w'), schema_version(), 'a worker calls it');
set session authorization test_owner;
select not_for(login, 'select lakequeue.worker_heartbeat(''w'')')
from unnest(array['test_app', 'test_web', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
