-- A claim: task and attempt together, each with its agent's lease and endpoint, and the books kept.
begin;
select plan(14);

select set_clock('2026-03-01 09:00+00');
select configure_agent('_cl a', lease_duration => '1 minute'), configure_agent('_cl b', lease_duration => '2 hours', model_endpoint => '_cl gpt');
create temporary table task as
select row_number() over () as n, e.id from (values
  (enqueue_task('_cl a', '/1', page_count => 1)), (enqueue_task('_cl b', '/2', customer => 'acme')), (enqueue_task('_cl a', '/3'))) e(id);
create temporary table attempt as select attempt_id as id from _claim(array[(select id from task where n = 1), (select id from task where n = 2)], 'w1');

select is((select count(*) from attempt), 2::bigint, 'it returns as many attempts');
select results_eq(
  $$select t.n, a.number, a.worker, a.status::text, a.started_at, g.name, e.name, a.estimated_tokens
    from attempt i join task_attempts a on a.id = i.id join task t on t.id = a.task_id
    join agents g on g.id = a.agent_id join model_endpoints e on e.id = a.endpoint_id order by t.n$$,
  $$values (1::bigint, 1, 'w1', 'running', '2026-03-01 09:00+00'::timestamptz, '_cl a', '_cl a', estimate_tokens('_cl a', 1)),
           (2, 1, 'w1', 'running', '2026-03-01 09:00+00', '_cl b', '_cl gpt', estimate_tokens('_cl b'))$$,
  'each attempt has its agent, endpoint and estimate as they are now');
select results_eq(
  $$select i.n, t.status::text, t.locked_by, t.lease_expires_at, t.attempt_count from task i join tasks t on t.id = i.id order by i.n$$,
  $$values (1::bigint, 'processing', 'w1', '2026-03-01 09:01+00'::timestamptz, 1), (2, 'processing', 'w1', '2026-03-01 11:00+00', 1),
           (3, 'enqueued', null, null, 0)$$,
  'each task has its agent''s lease; others are left alone');
select results_eq(
  $$select status, tasks from queue_metrics(agents => array['_cl a', '_cl b'], statuses => array['enqueued', 'processing'])$$,
  $$values ('enqueued', 1::bigint), ('processing', 2)$$, 'the metrics follow');
select results_eq(
  $$select customer, tasks from task_deltas where agent_id in ((_agent('_cl a')).id, (_agent('_cl b')).id) and to_status = 'processing' order by customer$$,
  $$values ('', 1::bigint), ('acme', 1)$$, 'with one delta per agent and customer');
select is((select count(*) from _claim('{}', 'w1')), 0::bigint, 'nothing to claim is nothing claimed');
select is((select count(*) from task_deltas where agent_id = (_agent('_cl a')).id and to_status = 'processing'), 1::bigint, 'and leaves no delta');

-- A task that has run before takes its usage along.
select record_usage(id, 100, 10, 5, 0.25) from attempt where id in (select a.id from task_attempts a join task t on t.id = a.task_id and t.n = 1);
select fail_attempt(id, 'crash') from attempt where id in (select a.id from task_attempts a join task t on t.id = a.task_id and t.n = 1);
update tasks set retry_at = null where id = (select id from task where n = 1);
select is((select attempt_number from _claim(array[(select id from task where n = 1)], 'w2')), 2, '(claimed again)');
select is((select number from task_attempts a join task t on t.id = a.task_id and t.n = 1 where a.status = 'running'), 2, 'its attempts are numbered on');
select results_eq(
  $$select status, tasks, input_tokens, output_tokens, cached_tokens, llm_cost
    from queue_metrics(agents => array['_cl a'], statuses => array['enqueued', 'processing'])$$,
  $$values ('enqueued', 1::bigint, null::bigint, null::bigint, null::bigint, null::numeric), ('processing', 1, 100, 10, 5, 0.25)$$,
  'and its usage moves with it');
select results_eq(
  $$select d.from_ran, d.from_priced, d.from_cost_told, d.to_ran, d.to_priced, d.to_cost_told, d.to_input_told, d.to_output_told, d.to_cached_told
    from task_deltas d where d.agent_id = (_agent('_cl a')).id and d.from_status = 'enqueued' order by d.id$$,
  $$values (0::bigint, 0::bigint, 0::bigint, 1::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint), (1, 1, 1, 1, 0, 1, 1, 1, 1)$$,
  'from its first claim on it has run; claimed again, its cost is told, but no longer in full');

-- What it tells of the new attempts is what _claims reads.
select set_model_price('_cl m', 3, 15, 0.3, '2026-01-01 00:00+00');
select configure_agent('_cl a', max_tpm => 900, parameters => '{"model": "_cl m"}', job_id => 7), configure_endpoint('_cl a', max_tpm => 800);
select enqueue_task('_cl a', '/4', 1), enqueue_task('_cl b', '/5', 9, 'acme', payload => '{"x": 1}', page_count => 2), enqueue_task('_cl a', '/6', 9);
create temporary table told as
select c.* from _claim(array(select id from tasks where document_path in ('/4', '/5', '/6') and agent_id in ((_agent('_cl a')).id, (_agent('_cl b')).id)), 'w3', 'databricks')
  with ordinality c;
select results_eq($$select t.* from told t order by t.ordinality$$,
  $$select c.* from _claims(array(select attempt_id from told), 'claimed') with ordinality c$$, 'it returns what _claims says of them, in its order');
select results_eq($$select document_path, job_id, max_tpm from told order by ordinality$$,
  $$values ('/5', null::bigint, null::bigint), ('/6', 7, 800), ('/4', 7, 800)$$, '(by priority, created_at and id)');

set session authorization test_worker;
select throws_ok($$select lakequeue._claim(array[1], 'w')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
