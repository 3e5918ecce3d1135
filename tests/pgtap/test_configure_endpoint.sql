-- Endpoints: made once, limits set, kept and taken away; changing a limit never resets usage, and waits for a dequeue.
begin;
select plan(50);

create function pg_temp.limits(endpoint text) returns text language sql as
$$ select format('%s %s', coalesce(e.max_concurrent_tasks::text, '-'), coalesce(e.max_tpm::text, '-'))
   from lakequeue.model_endpoints e where e.name = endpoint $$;

create temporary table made as select configure_endpoint('_ce gpt') as id;
select is((select id from made), (select id from model_endpoints where name = '_ce gpt'), 'it returns the id');
select is(pg_temp.limits('_ce gpt'), '- -', 'a new endpoint has no limits');
select is(configure_endpoint('_ce gpt', 4), (select id from made), 'again it is the same endpoint');
select is(pg_temp.limits('_ce gpt'), '4 -', 'with the limit that was given');
select configure_endpoint('_ce gpt', max_tpm => 200000);
select is(pg_temp.limits('_ce gpt'), '4 200000', 'null leaves the other limit as it is');
select configure_endpoint('_ce gpt');
select is(pg_temp.limits('_ce gpt'), '4 200000', 'nulls leave both');
select configure_endpoint('_ce gpt', 0);
select is(pg_temp.limits('_ce gpt'), '- 200000', '0 takes one away');
select configure_endpoint('_ce gpt', 2147483647, 9223372036854775807);
select is(pg_temp.limits('_ce gpt'), '2147483647 9223372036854775807', 'the largest numbers are fine');
select configure_endpoint('_ce gpt', 0, 0);
select is(pg_temp.limits('_ce gpt'), '- -', 'and may be taken away together');
select is(configure_endpoint(repeat('ü', 200)) > 0, true, 'a name may have 200 characters');
select isnt(configure_endpoint('_CE GPT'), (select id from made), 'names differ in case');

select throws_ok($$select configure_endpoint('_ce gpt', -1)$$, 'LQ400', null, 'a negative number of tasks is refused');
select throws_ok($$select configure_endpoint('_ce gpt', max_tpm => -1)$$, 'LQ400', null, 'a negative number of tokens is');
select throws_ok($$select configure_endpoint('_ce refused', 1, -1)$$, 'LQ400', null, 'also for a new endpoint');
select is((select count(*) from model_endpoints where name = '_ce refused'), 0::bigint, 'which is then not made');
select throws_ok($$select configure_endpoint(null, 1)$$, 'LQ400', null, 'no name is refused');
select throws_ok($$select configure_endpoint('', 1)$$, 'LQ400', null, 'an empty one is');
select throws_ok($$select configure_endpoint('  ', 1)$$, 'LQ400', null, 'a blank one is');
select throws_ok($$select configure_endpoint('_ce gpt ', 1)$$, 'LQ400', null, 'one with a blank behind it is');
select throws_ok($$select configure_endpoint(E'_ce\ngpt', 1)$$, 'LQ400', null, 'one of two lines is');
select throws_ok($$select configure_endpoint(repeat('x', 201), 1)$$, 'LQ400', null, 'one of 201 characters is');
select is(pg_temp.limits('_ce gpt'), '- -', 'none of these changed anything');

-- the further limits
select is(configure_endpoint('_ce more', max_input_tpm => 5, max_output_tpm => 6, max_rpm => 7, max_passed_over => '1 minute') > 0, true, 'limits of every kind');
select results_eq($$select max_input_tpm, max_output_tpm, max_rpm, max_passed_over from model_endpoints where name = '_ce more'$$,
  $$values (5::bigint, 6::bigint, 7::bigint, interval '1 minute')$$, 'are kept');
select is(configure_endpoint('_ce more', max_rpm => 0) > 0, true, 'one of them is taken away');
select results_eq($$select max_input_tpm, max_output_tpm, max_rpm, max_passed_over from model_endpoints where name = '_ce more'$$,
  $$values (5::bigint, 6::bigint, null::bigint, interval '1 minute')$$, 'the others stay');
select is((select max_passed_over from model_endpoints where name = '_ce gpt'), '2 minutes', 'two minutes of being passed over are the default');
select throws_ok(format('select configure_endpoint(''_ce more'', %s)', a.argument), 'LQ400', null, a.argument || ' is refused')
from unnest(array['max_input_tpm => -1', 'max_output_tpm => -1', 'max_rpm => -1', $$max_passed_over => '-1 s'$$, $$max_passed_over => '2 days'$$]) a(argument);

-- a cooldown
select configure_agent('_ce cool', model_endpoint => '_ce cool', estimate_factor => 1);
select enqueue_task('_ce cool', '/1.pdf'), enqueue_task('_ce cool', '/2.pdf');
create temporary table run as select * from dequeue_tasks('_ce worker', 1, array['_ce cool']);
select ok(report_rate_limit(attempt_id, callback_token, '1000 years') > _now() + interval '59 minutes', '(an agent was told to wait for an hour)') from run;
create function pg_temp.cools() returns text language sql as
$$ select round(extract(epoch from e.cooldown_until - clock_timestamp()) / 60)::text from lakequeue.model_endpoints e where e.name = '_ce cool' $$;
select configure_endpoint('_ce cool', max_rpm => 100);
select is(pg_temp.cools(), '60', 'a limit leaves a cooldown as it is');
select is_empty($$select from dequeue_tasks('_ce worker', 1, array['_ce cool'])$$, '(nothing is claimed)');
select configure_endpoint('_ce cool', cooldown => '0');
select is(pg_temp.cools(), null, '0 ends it');
select is((select count(*) from dequeue_tasks('_ce worker', 1, array['_ce cool'])), 1::bigint, 'and the next task is claimed');
select configure_endpoint('_ce cool', cooldown => '5 minutes');
select is(pg_temp.cools(), '5', 'an operator may set one, too');
select is((select array_agg(detail ? 'cooldown_until' order by id) from task_events where kind = 'endpoint_configured' and detail ->> 'endpoint' = '_ce cool'),
  '{f,t,t}', 'which the events tell');
select throws_ok(format('select configure_endpoint(''_ce cool'', cooldown => %L)', c), 'LQ400', null, 'no cooldown: ' || c)
from unnest(array['-1 second', '25 hours']) c;
select throws_ok($$select configure_endpoint('_ce cool', cooldown => '1000 years')$$, 'LQ400', null, 'nor 1000 years');

-- the trail, the lock, the usage
select is(
  (select array_agg(format('%s %s', detail ->> 'max_concurrent_tasks', detail ->> 'max_tpm') order by id)
   from task_events where kind = 'endpoint_configured' and detail ->> 'endpoint' = '_ce gpt'),
  array['4 ', '4 200000', ' 200000', '2147483647 9223372036854775807', ' '],
  'every change leaves an event, calls that change nothing leave none');
select is(
  (select count(*) from pg_locks l where l.locktype = 'advisory' and l.pid = pg_backend_pid()
     and l.classid = _lock_class()::oid and l.objid = (select id from made)::oid and l.mode = 'ExclusiveLock'),
  1::bigint, 'the endpoint''s throttle lock is held until commit');
select configure_agent('_ce parser', model_endpoint => '_ce gpt');
select enqueue_task('_ce parser', '/' || n) from generate_series(1, 3) n;
create temporary table claim as select * from dequeue_tasks('_ce worker', 2, array['_ce parser']);
select configure_endpoint('_ce gpt', 2);
select is((select used from explain_throttle('_ce parser') where kind = 'tasks'), 2::numeric, 'a new limit finds the usage as it is');
select is((select count(*) from dequeue_tasks('_ce worker', 10, array['_ce parser'])), 0::bigint, 'and nothing more is claimed');

set session authorization test_operator;
select lives_ok($$select configure_endpoint('_ce gpt', 7)$$, 'an operator may configure');
set session authorization test_web;
select throws_ok($$select configure_endpoint('_ce gpt', 8)$$, '42501', null, 'the web process may not');
set session authorization test_worker;
select throws_ok($$select configure_endpoint('_ce gpt', 8)$$, '42501', null, 'a worker may not');
set session authorization test_owner;
select is(pg_temp.limits('_ce gpt'), '7 -', 'so the operator''s limit stands');

select * from finish();
rollback;
