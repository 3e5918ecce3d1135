-- How each agent stands: what waits and runs, what it spends, why nothing may be claimed, rate limits of the last hour.
begin;
select plan(31);

select set_clock('2026-03-01 09:00+00');
select configure_endpoint('_as gpt', 7, 90000);
select configure_agent('_as a', job_id => 77, model_endpoint => '_as gpt', max_concurrent_tasks => 5, max_tpm => 60000, breaker_failures => 4, tokens_per_task => 1000, tokens_per_page => 0, estimate_factor => 1),
       configure_agent('_as b', model_endpoint => '_as gpt', tokens_per_task => 200, tokens_per_page => 0, estimate_factor => 1), configure_agent('_as idle');
create function pg_temp.status(agent text) returns text language sql as $$
  select format('enqueued %s, waiting %s, processing %s, spending %s, tokens %s',
                s.enqueued, s.waiting, s.processing, s.spending, s.tokens_last_minute)
  from lakequeue.agent_status(array[agent]) s
$$;

select results_eq(
  $$select agent, model_endpoint, job_id, paused_at, paused_by, pause_reason, cooldown_until, oldest_waiting, failures_in_a_row,
           breaker_failures from agent_status(array['_as a', '_as idle'])$$,
  $$values ('_as a', '_as gpt', 77::bigint, null::timestamptz, null::text, null::text, null::timestamptz, null::interval, 0, 4),
           ('_as idle', '_as idle', null, null, null, null, null, null, 0, 10)$$,
  'the configuration is told as it is, by name');
select is(pg_temp.status('_as idle'), 'enqueued 0, waiting 0, processing 0, spending 0, tokens 0', 'where nothing is, nothing is counted');

select enqueue_task('_as a', '/' || n, n) from generate_series(0, 5) n;
select advance('10 seconds');
select enqueue_task('_as b', '/b' || n, 9) from generate_series(1, 3) n;
create temporary table claim as select * from dequeue_tasks('w', 3, array['_as a']);
select dequeue_tasks('w', 1, array['_as b']);
select is(pg_temp.status('_as a'), 'enqueued 3, waiting 0, processing 3, spending 3, tokens 3000', 'claims spend');
select is(pg_temp.status('_as b'), 'enqueued 2, waiting 0, processing 1, spending 1, tokens 200', 'so do those of the other agent at the same endpoint, by themselves');

select fail_attempt(attempt_id, 'crash') from claim where document_path = '/5';
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 2, spending 2, tokens 3000',
  'a failed attempt waits for its retry, and its tokens count on for a minute');
select record_callback(attempt_id, callback_token, 'success', '{"x": 1}', input_tokens => 400, output_tokens => 100, usage_complete => true) from claim where document_path = '/4';
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 1, spending 1, tokens 2500', 'a settled one counts what it used');
select extend_leases(array[attempt_id], array[callback_token], array[5000], array[1]) from claim where document_path = '/3';
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 1, spending 1, tokens 6501', 'an overrun counts at once');
select store_result(attempt_id, callback_token, '{"x": 1}') from claim where document_path = '/3';
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 0, spending 1, tokens 6501', 'a run that outlives its task spends on');
select fold_rollups();
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 0, spending 1, tokens 6501', 'folding changes nothing');
select advance('60 seconds');
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 0, spending 1, tokens 5001', 'after a minute what has ended counts no more');

select is((select oldest_waiting from agent_status(array['_as a'])), interval '70 seconds', 'the oldest claimable task has waited since it was enqueued');
select is((select oldest_waiting from agent_status(array['_as b'])), interval '60 seconds', 'of each agent');
select configure_agent('_as a', model_endpoint => '_as other');
select results_eq($$select spending, model_endpoint from agent_status(array['_as a'])$$, $$values (1::bigint, '_as other')$$,
  'an agent that has moved takes along what it spends');

-- rate limits
create function pg_temp.limited(agent text) returns text language sql as $$
  select format('%s met, %s given back, %s of %s failures', s.rate_limits_last_hour, s.given_back_last_hour, s.failures_in_a_row, s.breaker_failures)
  from lakequeue.agent_status(array[agent]) s
$$;
select is(pg_temp.limited('_as b'), '0 met, 0 given back, 0 of 10 failures', 'no rate limit was met');
create temporary table limited as select * from dequeue_tasks('w', 1, array['_as b']);
select report_rate_limit(attempt_id, callback_token, '1 second'), report_rate_limit(attempt_id, callback_token, '2 seconds') from limited;
select is(pg_temp.limited('_as b'), '2 met, 0 given back, 0 of 10 failures', 'each 429 that a run reports is told, though it goes on');
select record_callback(attempt_id, callback_token, 'rate_limited', retry_after => '3 seconds') from limited;
select is(pg_temp.limited('_as b'), '2 met, 1 given back, 0 of 10 failures', 'so is an attempt that could not go on, which is no failure');
select is(pg_temp.limited('_as a'), '0 met, 0 given back, 0 of 4 failures', 'of each agent');
select advance('1 hour');
select is(pg_temp.limited('_as b'), '0 met, 0 given back, 0 of 10 failures', 'after an hour no more');
insert into task_events (at, kind, agent_id, actor, session_actor)
select _now(), 'rate_limited', a.id, 'w', 'w' from agents a, generate_series(1, 1001) where a.name = '_as b';
select is(pg_temp.limited('_as b'), '1000 met, 0 given back, 0 of 10 failures', 'a thousand stands for that or more');

-- switches
update model_endpoints set cooldown_until = _now() + interval '1 minute' where name = '_as gpt';
select is((select cooldown_until from agent_status(array['_as b'])), _now() + interval '1 minute', 'a cooling endpoint says until when');
select advance('1 minute');
select is((select cooldown_until from agent_status(array['_as b'])), null, 'and nothing when it is over');
select pause_agent('_as b', 'too dear');
select results_eq($$select paused_at, paused_by, pause_reason from agent_status(array['_as b'])$$, $$values (_now(), 'test_owner', 'too dear')$$, 'a pause is told with who and why');

select ok(array(select agent from agent_status()) @> array['_as a', '_as b', '_as idle'], 'null means all agents');
select is((select count(*) from agent_status()), (select count(*) from agents), 'each once');
select is((select count(*) from agent_status('{}')), 0::bigint, 'none means none');
select throws_ok($$select * from agent_status(array['_as a', '_as nobody'])$$, 'LQ404', null, 'an unknown agent is refused');
select throws_ok($$select * from agent_status(array[null::text])$$, 'LQ404', null, 'so is null as one');

set session authorization test_reader;
select is((select agent from lakequeue.agent_status(array['_as a'])), '_as a', 'a reader may ask');
set session authorization test_web;
select is((select agent from lakequeue.agent_status(array['_as a'])), '_as a', 'the web process may');
set session authorization test_app;
select throws_ok($$select * from lakequeue.agent_status()$$, '42501', null, 'an application may not');
set session authorization test_agent;
select throws_ok($$select * from lakequeue.agent_status()$$, '42501', null, 'an agent may not');
set session authorization test_owner;

select * from finish();
rollback;
