-- What runs need to know, in rule 2's order, as it is at the time of asking.
begin;
select plan(7);

select set_clock('2026-03-01 09:00+00');
select configure_endpoint('_cs limited', max_tpm => 500);
select configure_agent('_cs a', parameters => '{"model": "m"}', lease_duration => '1 minute'),
       configure_agent('_cs b', model_endpoint => '_cs limited', max_tpm => 700, job_id => 7),
       configure_agent('_cs c', model_endpoint => '_cs limited');
select enqueue_task('_cs a', '/1', 1), enqueue_task('_cs b', '/2', 5), enqueue_task('_cs a', '/3', 5);
select advance('1 second');
select enqueue_task('_cs c', '/4', 5), enqueue_task('_cs c', '/5', 9);
create temporary table attempt as
select c.* from _claim(array(select id from tasks where agent_id in (select id from agents where name like '\_cs %')), 'w1') with ordinality c;

select results_eq(
  $$select outcome, document_path, agent, job_id, max_tpm, parameters, lease_expires_at from _claims(array(select attempt_id from attempt), 'adopted')$$,
  $$values ('adopted', '/5', '_cs c', null::bigint, 500::bigint, '{}'::jsonb, '2026-03-01 09:05:01+00'::timestamptz),
           ('adopted', '/2', '_cs b', 7, 500, '{}', '2026-03-01 09:05:01+00'),
           ('adopted', '/3', '_cs a', null, null, '{"model": "m"}', '2026-03-01 09:01:01+00'),
           ('adopted', '/4', '_cs c', null, 500, '{}', '2026-03-01 09:05:01+00'),
           ('adopted', '/1', '_cs a', null, null, '{"model": "m"}', '2026-03-01 09:01:01+00')$$,
  'by priority, created_at and id, each with the stricter token limit and its agent''s parameters');
select is((select count(*) from _claims(array(select attempt_id from attempt), 'adopted') c where _check_token(c.attempt_id, c.callback_token) = c.task_id), 5::bigint,
  'every token is the right one');
select is((select count(*) from _claims(array(select attempt_id from attempt), 'adopted') c join task_attempts a on a.id = c.attempt_id and a.run_key = c.run_key), 5::bigint,
  'so is every run key');
select configure_agent('_cs b', max_tpm => 300);
select is((select max_tpm from _claims(array(select attempt_id from attempt), 'x') where agent = '_cs b'), 300::bigint, 'the agent''s limit counts if it is the stricter one');
select is((select count(*) from _claims('{}', 'x')), 0::bigint, 'no attempts, no rows');
select is((select count(*) from _claims(array[-1], 'x')), 0::bigint, 'an unknown one has none either');

set session authorization test_worker;
select throws_ok($$select lakequeue._claims(array[1], 'x')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
