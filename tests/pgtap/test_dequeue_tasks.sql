-- The worker's call: what it returns and does, the order and fairness of rule 2, and what it refuses. Limits are tested in
-- test__admit.sql, several workers at once in tests/race.
begin;
\ir scenarios.sql
select plan(77);

select set_clock('2026-03-01 09:00+00');
-- the paths of what a dequeue claims, in the order it returns them
create function pg_temp.take(agents text[], batch_size integer default 10) returns text language sql as $$
  select string_agg(coalesce(d.document_path, d.outcome), ' ' order by d.ordinality)
  from lakequeue.dequeue_tasks('w', batch_size, agents) with ordinality d
$$;
-- how many tasks of each agent it claims, in the agents' order
create function pg_temp.shares(agents text[], batch_size integer) returns bigint[] language sql as $$
  with claimed as materialized (select d.agent from lakequeue.dequeue_tasks('w', batch_size, agents) d)
  select array_agg((select count(*) from claimed c where c.agent = a.name) order by a.number)
  from unnest(agents) with ordinality a(name, number)
$$;
create function pg_temp.enqueue(agent text, paths text, priority integer default 5) returns void language sql as $$
  select lakequeue.enqueue_task(agent, p.path, priority) from unnest(string_to_array(paths, ' ')) with ordinality p(path, n) order by p.n
$$;

-- --- what a claim is -----------------------------------------------------------------------------
select set_model_price('_dq model', 3, 15, 0.3, '2026-01-01 00:00+00');
create temporary table agent as
select configure_agent('_dq parser', job_id => 77, max_tpm => 9000, lease_duration => '90 seconds', tokens_per_task => 100,
  tokens_per_page => 1000, estimate_factor => 1, parameters => '{"model": "_dq model"}') as id;
select configure_endpoint('_dq parser', max_tpm => 8000);
select is((select count(*) from dequeue_tasks('w1', 10, array['_dq parser'])), 0::bigint, 'where nothing is enqueued there is no row');
create temporary table task as
select enqueue_task('_dq parser', '/a.pdf', 7, 'acme', payload => '{"x": 1}', page_count => 3) as id;
create temporary table claim as select * from dequeue_tasks('w1', 10, array['_dq parser']);
select results_eq(
  $$select outcome, task_id, attempt_number, agent, job_id, customer, document_path, payload, page_count, priority, estimated_tokens,
           max_tpm, lease_duration, lease_expires_at, parameters, model_prices -> '_dq model' from claim$$,
  $$values ('claimed', (select id from task), 1, '_dq parser', 77::bigint, 'acme', '/a.pdf', '{"x": 1}'::jsonb, 3, 7::smallint,
            3100::bigint, 8000::bigint, interval '90 seconds', '2026-03-01 09:01:30+00'::timestamptz, '{"model": "_dq model"}'::jsonb,
            '{"input_usd": 3, "cached_usd": 0.3, "output_usd": 15}'::jsonb)$$,
  'the claim has all that a run needs; max_tpm is the stricter limit of agent and endpoint');
select is((select _check_token(attempt_id, callback_token) from claim), (select id from task), 'its token is the attempt''s');
select results_eq(
  $$select status::text, locked_by, lease_expires_at, attempt_count, failures from tasks where id = (select id from task)$$,
  $$values ('processing', 'w1', '2026-03-01 09:01:30+00'::timestamptz, 1, 0)$$, 'the task is processing, leased to the worker');
select results_eq(
  $$select a.id, a.number, a.agent_id, a.endpoint_id, a.estimated_tokens, a.worker, a.run_key, a.run_id, a.status::text, a.started_at,
           a.ended_at, a.run_ended_at from task_attempts a where a.task_id = (select id from task)$$,
  $$select c.attempt_id, 1, (select id from agent), (select id from model_endpoints where name = '_dq parser'), 3100::bigint, 'w1',
           c.run_key, null::bigint, 'running', '2026-03-01 09:00+00'::timestamptz, null::timestamptz, null::timestamptz from claim c$$,
  'its attempt runs');
select is(pg_temp.take(array['_dq parser']), null, 'a claimed task is not claimed again');
select fail_attempt(attempt_id, 'crash') from claim;
select is(pg_temp.take(array['_dq parser']), null, 'one that waits for its retry is not claimed');
select advance('1 day');
select is(pg_temp.take(array['_dq parser']), null, 'not even when the wait is over, until a sweep has cleared it');
select sweep_leases();
create temporary table second_claim as select * from dequeue_tasks('w2', 10, array['_dq parser']);
select results_eq(
  $$select c.task_id, c.attempt_number, c.attempt_id > f.attempt_id, c.run_key <> f.run_key, c.callback_token <> f.callback_token
    from second_claim c, claim f$$,
  $$values ((select id from task), 2, true, true, true)$$, 'then it is, as an attempt of its own');
select is((select attempt_count from tasks where id = (select id from task)), 2, 'and counted as one');

-- --- rule 2: order -------------------------------------------------------------------------------
select configure_agent('_dq one'), configure_agent('_dq two');
select set_clock('2026-03-01 10:00+00');
select pg_temp.enqueue('_dq one', '/1b /1c', 5), pg_temp.enqueue('_dq two', '/2d', 5), pg_temp.enqueue('_dq one', '/1e', 5);
select set_clock('2026-03-01 09:00+00');
select pg_temp.enqueue('_dq two', '/2a', 5), pg_temp.enqueue('_dq two', '/2z', 0);
select set_clock('2026-03-01 11:00+00');
select pg_temp.enqueue('_dq one', '/1h', 9), pg_temp.enqueue('_dq two', '/2g', 9), pg_temp.enqueue('_dq one', '/1y', 1);
select is(pg_temp.take(array['_dq one', '_dq two'], 20), '/1h /2g /2a /1b /1c /2d /1e /1y /2z',
  'several agents'' tasks are merged: highest priority, then created_at, then id');

select configure_agent('_dq old'), pg_temp.enqueue('_dq old', '/old');
select advance('1 hour');
select pg_temp.enqueue('_dq old', '/new /newer');
create temporary table old as select * from dequeue_tasks('w', 1, array['_dq old']);
select fail_attempt(attempt_id, 'crash') from old;
select advance('1 hour');
select sweep_leases();
select is(pg_temp.take(array['_dq old'], 2), '/old /new', 'a retried task keeps its place');
select is(pg_temp.take(array['_dq old'], 2), '/newer', 'and what is left comes next');

-- --- rule 2: fairness ----------------------------------------------------------------------------
select configure_agent('_dq a'), configure_agent('_dq b'), configure_agent('_dq c');
create function pg_temp.refill() returns void language sql as $$
  delete from lakequeue.tasks t where t.status = 'enqueued';
  select pg_temp.enqueue('_dq a', (select string_agg('/a' || n, ' ') from generate_series(1, 30) n), 9);
  select pg_temp.enqueue('_dq b', (select string_agg('/b' || n, ' ') from generate_series(1, 30) n), 5);
  select pg_temp.enqueue('_dq c', '/c1 /c2 /c3', 0);
$$;
select pg_temp.refill();
select is(pg_temp.shares('{"_dq a","_dq b"}', 10), '{5,5}', 'two agents share a batch, whatever their priorities');
select pg_temp.refill();
select is(pg_temp.shares('{"_dq a","_dq c"}', 10), '{7,3}', 'what one leaves, another takes as a second helping');
select pg_temp.refill();
select is(pg_temp.shares('{"_dq a","_dq b","_dq c"}', 10), '{4,4,2}', 'shares are rounded up, in rule 2''s order');
select pg_temp.refill();
select is(pg_temp.shares('{"_dq a","_dq b"}', 3), '{2,1}', 'an odd batch gives the higher priority one more');
select pg_temp.refill();
select is(pg_temp.shares('{"_dq a","_dq b","_dq c"}', 1), '{1,0,0}', 'a batch of one is the first of all');
select pg_temp.refill();
select pg_temp.enqueue('_dq c', '/c-urgent', 9), pg_temp.enqueue('_dq b', '/b-urgent', 9);
update tasks set created_at = created_at - interval '1 hour' where document_path in ('/c-urgent', '/b-urgent');
select is(pg_temp.take('{"_dq a","_dq b","_dq c"}', 2), '/c-urgent /b-urgent', 'of whatever agent that is');
select pg_temp.refill();
select is(pg_temp.shares('{"_dq a","_dq b","_dq c"}', 60), '{30,27,3}', 'a second helping goes by rule 2''s order again');
select pg_temp.refill();
select configure_agent('_dq a', max_concurrent_tasks => 1);
select is(pg_temp.shares('{"_dq a","_dq b"}', 10), '{0,10}', 'an agent without room takes no share');
select configure_agent('_dq a', max_concurrent_tasks => 0);
select pg_temp.refill();
select configure_agent('_dq a', max_concurrent_tasks => (select count(*) from task_attempts s where s.agent_id = a.id and s.run_ended_at is null)::integer + 2)
from agents a where a.name = '_dq a';
select is(pg_temp.shares('{"_dq a","_dq b"}', 10), '{2,8}', 'one with little room leaves the rest to the others');
select configure_agent('_dq a', max_concurrent_tasks => 0);

-- --- which agents --------------------------------------------------------------------------------
select pg_temp.refill();
select is(pg_temp.take('{}'), null, 'no agents, no tasks');
select is(pg_temp.take(array['_dq c', '_dq c'], 2), '/c1 /c2', 'only the agents named are served, one named twice as one');
select is(pg_temp.take(null, 1), '/a1', 'null serves all');
select pause_agent('_dq a');
select is(pg_temp.take(null, 1), '/b1', 'but for paused ones');
select is(pg_temp.take(array['_dq a']), null, 'even by name');
update model_endpoints set cooldown_until = _now() + interval '1 second' where name = '_dq b';
select is(pg_temp.take(null, 1), '/c3', 'nor do endpoints that cool down');
select is(pg_temp.take(array['_dq b']), null, 'even by name');
select advance('1 second');
select is(pg_temp.take(null, 1), '/b2', 'until that time has come');

-- --- how many ------------------------------------------------------------------------------------
-- Statistics from when the table was empty, and planners that are told to join in one way only: a LIMIT in a plain
-- subquery would be evaluated again and again, and claim everything.
delete from tasks where status = 'enqueued';
analyze tasks;
analyze task_attempts;
select pg_temp.enqueue('_dq c', (select string_agg('/' || n, ' ') from generate_series(1, 400) n));
create function pg_temp.take_with(setting text) returns bigint[] language plpgsql as $$
declare v_before bigint := (select count(*) from lakequeue.tasks t where t.status = 'processing'); v_rows bigint;
begin
  perform set_config(setting, 'off', true) where setting <> '';
  select count(*) into v_rows from lakequeue.dequeue_tasks('w', 7, array['_dq c']) d where d.outcome = 'claimed';
  perform set_config(setting, 'on', true) where setting <> '';
  return array[v_rows, (select count(*) from lakequeue.tasks t where t.status = 'processing') - v_before];
end $$;
select is(pg_temp.take_with(s), '{7,7}', 'exactly batch_size is claimed with ' || coalesce(nullif(s, '') || ' off', 'the default plans'))
from unnest(array['', 'enable_nestloop', 'enable_hashjoin', 'enable_mergejoin', 'enable_indexscan', 'enable_material',
                  'enable_hashagg', 'enable_sort', 'enable_bitmapscan']) s;
analyze tasks;
select is(pg_temp.take_with(''), '{7,7}', 'and with statistics that are up to date');
select is((select count(*) from dequeue_tasks(repeat('ü', 200), 1000, array['_dq c'])), 330::bigint, 'a batch may be 1000, a worker''s name 200 characters');
select is((select count(*) from (select count(*) from task_attempts where status = 'running' group by task_id having count(*) > 1) d), 0::bigint,
  'nothing was claimed twice');
select is((select count(*) from tasks t where (t.status = 'processing') <> exists (
    select from task_attempts a where a.task_id = t.id and a.status = 'running')), 0::bigint, 'what is processing has a running attempt');

-- --- locks ---------------------------------------------------------------------------------------
create function pg_temp.lock_modes(endpoint text) returns text[] language sql as $$
  select array_agg(distinct l.mode order by l.mode) from pg_locks l join lakequeue.model_endpoints e on l.objid = e.id::oid and e.name = endpoint
  where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.classid = lakequeue._lock_class()::oid
$$;
-- inserted by hand, since configure_agent takes the lock itself
insert into model_endpoints (name, max_tpm) values ('_dq free', null), ('_dq limited', 100000), ('_dq idle', null), ('_dq paused', null);
insert into agents (name, model_endpoint_id) select name, id from model_endpoints where name in ('_dq free', '_dq limited', '_dq idle', '_dq paused');
update agents set paused_at = _now(), paused_by = 'x' where name = '_dq paused';
select without_upkeep();
select enqueue_task('_dq free', '/f'), enqueue_task('_dq limited', '/l'), enqueue_task('_dq paused', '/p');
select is(pg_temp.take(array['_dq free', '_dq limited', '_dq idle', '_dq paused']), '/f /l', 'endpoints with and without limits');
select is(pg_temp.lock_modes('_dq limited'), '{ExclusiveLock}', 'one with limits is locked exclusively');
select is(pg_temp.lock_modes('_dq free'), '{ShareLock}', 'one without is shared');
select is(pg_temp.lock_modes('_dq idle'), null, 'one with nothing to claim is not locked');
select is(pg_temp.lock_modes('_dq paused'), null, 'nor one whose agent is paused');

select configure_agent('_dq beside', model_endpoint => '_dq limited');
select configure_agent('_dq limited', max_concurrent_tasks => 7), configure_endpoint('_dq limited', max_concurrent_tasks => 0);
select enqueue_task('_dq beside', '/b');
select is(pg_temp.take(array['_dq beside']), '/b', 'an agent without limits is served beside one with limits of its own');

-- --- who serves whom -------------------------------------------------------------------------------
select configure_agent('_dq job', job_id => 77), configure_agent('_dq here');
select enqueue_tasks(a, '[{"document_path": "/1"}, {"document_path": "/2"}]') from unnest(array['_dq job', '_dq here']) a;
select worker_heartbeat('_dq local', relay => 'local'), worker_heartbeat('_dq jobs', relay => 'databricks'), worker_heartbeat('_dq mute');
select results_eq($$select agent, job_id from dequeue_tasks('_dq local', 1, array['_dq job', '_dq here'])$$, $$values ('_dq here', null::bigint)$$,
  'a worker of local runs serves agents without a job');
select results_eq($$select agent, job_id from dequeue_tasks('_dq jobs', 1, array['_dq job', '_dq here'])$$, $$values ('_dq job', 77::bigint)$$,
  'one of job runs those with one');
select set_eq($$select agent, job_id from dequeue_tasks('_dq mute', 2, array['_dq job', '_dq here'])$$, $$values ('_dq here', null::bigint), ('_dq job', 77)$$,
  'one that does not say where it runs them, both');
select enqueue_task('_dq job', '/3'), configure_agent('_dq job', job_id => 78);
select results_eq($$select agent, job_id from dequeue_tasks('_dq jobs', 1, array['_dq job'])$$, $$values ('_dq job', 78::bigint)$$, 'the job of a run is the agent''s at its claim');
select results_eq($$select a.job_id from task_attempts a join agents g on g.id = a.agent_id and g.name = '_dq job' order by a.id$$,
  $$values (77::bigint), (77), (78)$$, 'and stays what it was');
-- An agent that gets a job between the look and the claim of a worker of local runs: the run is here all the same.
select enqueue_task('_dq job', '/4') as task \gset
select _claim(array[:task], '_dq local', 'local');
select is((select a.job_id from task_attempts a where a.task_id = :task), null, 'an attempt knows where its run is');

-- --- who does not wait for the disk (what a crash then leaves: tests/race/test_durable.py) ------------
select enqueue_task('_dq job', '/5'), enqueue_task('_dq job', '/6');
select is(pg_temp.take(array['_dq job'], 1), '/5', 'a durable claim');
select is(current_setting('synchronous_commit'), 'on', 'waits for the disk');
savepoint claims;
select is((select d.document_path from dequeue_tasks('w', 1, array['_dq job'], durable => false) d), '/6', 'one that is not');
select is(current_setting('synchronous_commit'), 'off', 'does not, to the end of its transaction');
rollback to claims;
-- Where the limit is full a look writes, too (what it counted), under the lock.
select configure_agent('_dq job', max_rpm => 1);
savepoint look;
select is((select count(*) from dequeue_tasks('w', 1, array['_dq job'], durable => false)), 0::bigint, 'a look that finds no room');
select is(current_setting('synchronous_commit'), 'off', 'does not wait, either');
rollback to look;

-- --- refused -------------------------------------------------------------------------------------
select enqueue_task('_dq a', '/left');
select throws_ok(format('select * from dequeue_tasks(%s)', a), 'LQ400', null, left(a, 40) || ' is refused')
from unnest(array['null', $$''$$, $$repeat('x', 201)$$, $$'w', null$$, $$'w', 0$$, $$'w', -1$$, $$'w', 1001$$, $$'w', 2147483647$$,
  $$'w', durable => null$$]) a;
select throws_ok($$select * from dequeue_tasks('w', 10, array['_dq a', '_dq nobody'])$$, 'LQ404', null, 'an unknown agent is refused');
select throws_ok($$select * from dequeue_tasks('w', 10, array[null::text])$$, 'LQ404', null, 'so is null');

set session authorization test_worker;
select lives_ok($$select * from dequeue_tasks('w', 1, array['_dq c'])$$, 'a worker may dequeue');
set session authorization test_app;
select throws_ok($$select * from dequeue_tasks('w')$$, '42501', null, 'an application may not');
set session authorization test_agent;
select throws_ok($$select * from dequeue_tasks('w')$$, '42501', null, 'an agent may not');
set session authorization test_operator;
select throws_ok($$select * from dequeue_tasks('w')$$, '42501', null, 'an operator may not');
set session authorization test_web;
select throws_ok($$select * from dequeue_tasks('w')$$, '42501', null, 'nor may the web process');
set session authorization test_owner;

select * from finish();
rollback;
