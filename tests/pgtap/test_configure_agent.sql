-- Agents: made with defaults, changed a value at a time, refused outside the documented ranges; moving to another
-- endpoint remembers the old one.
begin;
select plan(82);

create function pg_temp.agent(agent text) returns agents language sql as
$$ select a from lakequeue.agents a where a.name = agent.agent $$;
create function pg_temp.endpoint(agent text) returns text language sql as
$$ select e.name from lakequeue.agents a join lakequeue.model_endpoints e on e.id = a.model_endpoint_id where a.name = agent $$;

-- defaults
create temporary table made as select configure_agent('_ca parser') as id;
select is((select id from made), (pg_temp.agent('_ca parser')).id, 'it returns the id');
select results_eq(
  $$select job_id, max_concurrent_tasks, max_tpm, lease_duration, reconcile_grace, max_attempts, max_rate_limited, parameters,
           paused_at from agents where name = '_ca parser'$$,
  $$values (null::bigint, null::integer, null::bigint, interval '5 minutes', interval '5 minutes', 3, 20, '{}'::jsonb,
            null::timestamptz)$$,
  'a new agent has the defaults');
select is(pg_temp.endpoint('_ca parser'), '_ca parser', 'and an endpoint of its own, by its own name');
select is(configure_agent('_ca parser'), (select id from made), 'again it is the same agent');

-- all values, then none
create temporary table everything as
select configure_agent('_ca parser', job_id => 9007199254740993, model_endpoint => '_ca gpt', max_concurrent_tasks => 4,
  max_tpm => 200000, lease_duration => '90 seconds', reconcile_grace => '30 seconds', max_attempts => 7,
  max_rate_limited => 8, retry_base => '3 seconds', retry_cap => '4 minutes', tokens_per_task => 11,
  tokens_per_page => 12, parameters => '{"model": "simulator", "x": null}') as id;
create temporary table full_row as select a.* from agents a where a.name = '_ca parser';
select results_eq(
  $$select job_id, max_concurrent_tasks, max_tpm, lease_duration, reconcile_grace, max_attempts, max_rate_limited,
           retry_base, retry_cap, tokens_per_task, tokens_per_page, parameters from full_row$$,
  $$values (9007199254740993, 4, 200000::bigint, interval '90 seconds', interval '30 seconds', 7, 8, interval '3 seconds',
            interval '4 minutes', 11, 12, '{"model": "simulator", "x": null}'::jsonb)$$,
  'every value can be given');
select configure_agent('_ca parser');
select results_eq('select * from agents where name = ''_ca parser''', 'select * from full_row', 'what is not given stays');
select configure_agent('_ca parser', max_concurrent_tasks => 0);
select is((pg_temp.agent('_ca parser')).max_concurrent_tasks, null, '0 takes a limit away');
select is((pg_temp.agent('_ca parser')).max_tpm, 200000::bigint, 'and only that one');
select configure_agent('_ca parser', max_tpm => 0);
select is((pg_temp.agent('_ca parser')).max_tpm, null, 'or the other');
select configure_agent('_ca parser', job_id => 0);
select is((pg_temp.agent('_ca parser')).job_id, null, 'and the job');

-- reconcile_grace
select configure_agent('_ca grace', lease_duration => '2 hours');
select is((pg_temp.agent('_ca grace')).reconcile_grace, interval '2 hours', 'the grace of a new agent is one lease');
select configure_agent('_ca no grace', lease_duration => '2 hours', reconcile_grace => '0');
select is((pg_temp.agent('_ca no grace')).reconcile_grace, interval '0', 'or what was given, also nothing');
select configure_agent('_ca grace', lease_duration => '3 hours');
select is((pg_temp.agent('_ca grace')).reconcile_grace, interval '2 hours', 'later it changes only by itself');

-- endpoints
select is(pg_temp.endpoint('_ca parser'), '_ca gpt', 'it has moved to the endpoint that was named, which was made');
select is((pg_temp.agent('_ca parser')).former_endpoint_ids, array(select id from model_endpoints where name = '_ca parser'),
  'and remembers the one it left');
select is(
  (select count(*) from pg_locks l join model_endpoints e on l.objid = e.id::oid and e.name in ('_ca parser', '_ca gpt')
   where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.classid = _lock_class()::oid and l.mode = 'ExclusiveLock'),
  2::bigint, 'both throttle locks are held until commit');
select configure_agent('_ca parser', model_endpoint => '_ca parser');
select configure_agent('_ca parser', model_endpoint => '_ca gpt');
select is((select array_agg(e.name order by e.name) from unnest((pg_temp.agent('_ca parser')).former_endpoint_ids) f(id)
           join model_endpoints e on e.id = f.id),
  array['_ca gpt', '_ca parser'], 'moving to and fro remembers each once');
select configure_endpoint('_ca shared', 3);
select configure_agent('_ca one', model_endpoint => '_ca shared'), configure_agent('_ca two', model_endpoint => '_ca shared');
select is((pg_temp.agent('_ca one')).model_endpoint_id, (pg_temp.agent('_ca two')).model_endpoint_id, 'agents can share an endpoint');
select is((pg_temp.agent('_ca one')).former_endpoint_ids, '{}'::integer[], 'a new agent has left none');
select is((select max_concurrent_tasks from model_endpoints where name = '_ca shared'), 3, 'whose limits stay');

-- ranges: the last that is allowed, the first that is not
select lives_ok(format('select configure_agent(''_ca edge'', %s)', a), a || ' is allowed')
from unnest(array[
  $$lease_duration => '1 second'$$, $$lease_duration => '1 day'$$, $$reconcile_grace => '0'$$, $$reconcile_grace => '7 days'$$,
  'max_attempts => 1', 'max_attempts => 100', 'max_rate_limited => 0', 'max_rate_limited => 1000', $$retry_base => '0'$$,
  $$retry_base => '1 day'$$, $$retry_cap => '0'$$, $$retry_cap => '7 days'$$, 'tokens_per_task => 0', 'tokens_per_page => 0',
  'max_concurrent_tasks => 1', 'max_tpm => 1', $$parameters => '{}'$$]) a;
create temporary table edge as select a.* from agents a where a.name = '_ca edge';
select throws_ok(format('select configure_agent(''_ca edge'', %s)', a), 'LQ400', null, a || ' is refused')
from unnest(array[
  $$lease_duration => '0.999 seconds'$$, $$lease_duration => '1 day 1 second'$$, $$lease_duration => '-5 minutes'$$,
  $$reconcile_grace => '-1 second'$$, $$reconcile_grace => '8 days'$$, 'max_attempts => 0', 'max_attempts => 101',
  'max_rate_limited => -1', 'max_rate_limited => 1001', $$retry_base => '-1 second'$$, $$retry_base => '25 hours'$$,
  $$retry_cap => '-1 second'$$, $$retry_cap => '8 days'$$, 'tokens_per_task => -1', 'tokens_per_page => -1',
  'max_concurrent_tasks => -1', 'max_tpm => -1', $$parameters => '[]'$$, $$parameters => '"x"'$$, $$parameters => 'null'$$,
  $$model_endpoint => ''$$, $$model_endpoint => ' gpt'$$, $$model_endpoint => repeat('x', 201)$$]) a;
select results_eq('select * from agents where name = ''_ca edge''', 'select * from edge', 'and changes nothing');
select throws_ok($$select configure_agent(null)$$, 'LQ400', null, 'no name is refused');
select throws_ok($$select configure_agent('')$$, 'LQ400', null, 'an empty one is');
select throws_ok($$select configure_agent(E'\t')$$, 'LQ400', null, 'a blank one is');
select throws_ok($$select configure_agent('_ca parser ')$$, 'LQ400', null, 'one with a blank behind it is');
select throws_ok($$select configure_agent(repeat('x', 201))$$, 'LQ400', null, 'one of 201 characters is');
select lives_ok($$select configure_agent(repeat('ü', 200))$$, 'one of 200 is not');
select throws_ok($$select configure_agent('_ca refused', max_attempts => 0)$$, 'LQ400', null, 'a new agent with a bad value is refused');
select is((select count(*) from agents where name = '_ca refused') + (select count(*) from model_endpoints where name = '_ca refused'),
  0::bigint, 'neither it nor its endpoint is made');

-- the trail
select is((select count(*) from task_events where kind = 'agent_configured' and agent_id = (pg_temp.agent('_ca grace')).id),
  2::bigint, 'making it and changing it left an event each');
select configure_agent('_ca grace', lease_duration => '3 hours');
select is((select count(*) from task_events where kind = 'agent_configured' and agent_id = (pg_temp.agent('_ca grace')).id),
  2::bigint, 'a call that changes nothing leaves none');

set session authorization test_operator;
select lives_ok($$select configure_agent('_ca parser', max_tpm => 5)$$, 'an operator may configure');
set session authorization test_web;
select throws_ok($$select configure_agent('_ca parser', max_tpm => 6)$$, '42501', null, 'the web process may not');
set session authorization test_app;
select throws_ok($$select configure_agent('_ca parser', max_tpm => 6)$$, '42501', null, 'an application may not');
set session authorization test_owner;
select is((pg_temp.agent('_ca parser')).max_tpm, 5::bigint, 'so the operator''s limit stands');

-- the further limits, reservations, the breaker
select configure_agent('_ca more', max_input_tpm => 5, max_output_tpm => 6, max_rpm => 7, reserves_calls => true, output_share => 0.5, breaker_failures => 3);
select results_eq($$select max_input_tpm, max_output_tpm, max_rpm, reserves_calls, output_share, breaker_failures from agents where name = '_ca more'$$,
  $$values (5::bigint, 6::bigint, 7::bigint, true, 0.5::real, 3)$$, 'limits of every kind, reservations and the breaker are kept');
select configure_agent('_ca more', max_output_tpm => 0, reserves_calls => false, breaker_failures => 0);
select results_eq($$select max_input_tpm, max_output_tpm, max_rpm, reserves_calls, output_share, breaker_failures from agents where name = '_ca more'$$,
  $$values (5::bigint, null::bigint, 7::bigint, false, 0.5::real, 0)$$, 'each is changed by itself');
select throws_ok(format('select configure_agent(''_ca more'', %s)', a.argument), 'LQ400', null, a.argument || ' is refused')
from unnest(array['max_input_tpm => -1', 'max_output_tpm => -1', 'max_rpm => -1', 'output_share => 1.1', 'breaker_failures => -1']) a(argument);

select * from finish();
rollback;
