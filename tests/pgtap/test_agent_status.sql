-- How each agent stands: what waits and runs, what counts against each limit, and why nothing may be claimed.
begin;
select plan(25);

select set_clock('2026-03-01 09:00+00');
select configure_endpoint('_as gpt', 7, 90000);
select configure_agent('_as a', job_id => 77, model_endpoint => '_as gpt', max_concurrent_tasks => 5, max_tpm => 60000, tokens_per_task => 1000, tokens_per_page => 0, estimate_factor => 1),
       configure_agent('_as b', model_endpoint => '_as gpt', tokens_per_task => 200, tokens_per_page => 0, estimate_factor => 1), configure_agent('_as idle');
create function pg_temp.status(agent text) returns text language sql as $$
  select format('enqueued %s, waiting %s, processing %s, spending %s, tokens %s, endpoint %s and %s',
                s.enqueued, s.waiting, s.processing, s.spending, s.tokens_last_minute, s.endpoint_spending, s.endpoint_tokens_last_minute)
  from lakequeue.agent_status(array[agent]) s
$$;

select results_eq(
  $$select agent, model_endpoint, job_id, paused_at, paused_by, pause_reason, max_concurrent_tasks, max_tpm, endpoint_max_concurrent_tasks,
           endpoint_max_tpm, cooldown_until, oldest_waiting from agent_status(array['_as a', '_as idle'])$$,
  $$values ('_as a', '_as gpt', 77::bigint, null::timestamptz, null::text, null::text, 5, 60000::bigint, 7, 90000::bigint, null::timestamptz, null::interval),
           ('_as idle', '_as idle', null, null, null, null, null, null, null, null, null, null)$$,
  'the configuration is told as it is, by name');
select is(pg_temp.status('_as idle'), 'enqueued 0, waiting 0, processing 0, spending 0, tokens 0, endpoint 0 and 0', 'where nothing is, nothing is counted');

select enqueue_task('_as a', '/' || n, n) from generate_series(0, 5) n;
select advance('10 seconds');
select enqueue_task('_as b', '/b' || n, 9) from generate_series(1, 3) n;
create temporary table claim as select * from dequeue_tasks('w', 3, array['_as a']);
select dequeue_tasks('w', 1, array['_as b']);
select is(pg_temp.status('_as a'), 'enqueued 3, waiting 0, processing 3, spending 3, tokens 3000, endpoint 4 and 3200', 'claims spend, of the agent and of the endpoint it shares');
select is(pg_temp.status('_as b'), 'enqueued 2, waiting 0, processing 1, spending 1, tokens 200, endpoint 4 and 3200', 'so does the other agent');

select fail_attempt(attempt_id, 'crash') from claim where document_path = '/5';
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 2, spending 2, tokens 3000, endpoint 3 and 3200',
  'a failed attempt waits for its retry, and its tokens count on for a minute');
select record_callback(attempt_id, callback_token, 'success', '{"x": 1}', input_tokens => 400, output_tokens => 100, usage_complete => true) from claim where document_path = '/4';
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 1, spending 1, tokens 2500, endpoint 2 and 2700', 'a settled one counts what it used');
select extend_leases(array[attempt_id], array[callback_token], array[5000], array[1]) from claim where document_path = '/3';
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 1, spending 1, tokens 6501, endpoint 2 and 6701', 'an overrun counts at once');
select store_result(attempt_id, callback_token, '{"x": 1}') from claim where document_path = '/3';
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 0, spending 1, tokens 6501, endpoint 2 and 6701', 'a run that outlives its task spends on');
select fold_rollups();
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 0, spending 1, tokens 6501, endpoint 2 and 6701', 'folding changes nothing');
select advance('60 seconds');
select is(pg_temp.status('_as a'), 'enqueued 4, waiting 1, processing 0, spending 1, tokens 5001, endpoint 2 and 5201', 'after a minute what has ended counts no more');

select is((select oldest_waiting from agent_status(array['_as a'])), interval '70 seconds', 'the oldest claimable task has waited since it was enqueued');
select is((select oldest_waiting from agent_status(array['_as b'])), interval '60 seconds', 'of each agent');
select configure_agent('_as a', model_endpoint => '_as other');
select results_eq($$select spending, endpoint_spending, model_endpoint from agent_status(array['_as a'])$$, $$values (1::bigint, 0::bigint, '_as other')$$,
  'an agent that has moved takes along what it spends, its new endpoint is free of it');

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
