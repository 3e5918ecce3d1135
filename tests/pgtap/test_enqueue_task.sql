-- One document: what is kept of it, and what a dedup_key does. What is refused is tested with enqueue_tasks, which does
-- the work; here only what the single form adds.
begin;
select plan(29);

select set_clock('2026-03-01 09:00+00');
select configure_agent('_e1 parser', tokens_per_task => 100, tokens_per_page => 1000, estimate_factor => 1);
create temporary table extraction as select create_extraction('March', 'acme') as id;
create function pg_temp.task(task bigint) returns tasks language sql as
$$ select t from lakequeue.tasks t where t.id = task $$;

create temporary table full_task as
select enqueue_task('_e1 parser', '/Volumes/a.pdf', priority => 9, customer => 'umbrella', extraction => (select id from extraction),
  payload => '{"x": null, "y": [1, {"z": null}]}', dedup_key => 'sha256:1', page_count => 3, document_bytes => 70000) as id;
select results_eq(
  $$select a.name, t.document_path, t.priority, t.customer, t.extraction_id, t.payload, t.dedup_key, t.page_count, t.document_bytes,
           t.status::text, t.created_at, t.estimated_tokens, t.attempt_count, t.failures, t.finished_at, t.retry_at
    from tasks t join agents a on a.id = t.agent_id where t.id = (select id from full_task)$$,
  $$values ('_e1 parser', '/Volumes/a.pdf', 9::smallint, 'umbrella', (select id from extraction), '{"x": null, "y": [1, {"z": null}]}'::jsonb,
            'sha256:1', 3, 70000::bigint, 'enqueued', '2026-03-01 09:00+00'::timestamptz, 3100::bigint, 0, 0, null::timestamptz,
            null::timestamptz)$$,
  'all that was given is kept, nulls in the payload too, with the estimate and the time');
create temporary table plain_task as select enqueue_task('_e1 parser', '/a.pdf') as id;
select results_eq(
  $$select priority, customer, extraction_id, payload, dedup_key, page_count, document_bytes, estimated_tokens
    from tasks where id = (select id from plain_task)$$,
  $$values (5::smallint, '', null::bigint, null::jsonb, null::text, null::integer, null::bigint, 1100::bigint)$$,
  'agent and path are enough: priority 5, no customer');
select isnt(enqueue_task('_e1 parser', '/a.pdf'), (select id from plain_task), 'without a dedup_key the same path is another task');
create temporary table in_extraction as select enqueue_task('_e1 parser', '/b.pdf', extraction => (select id from extraction)) as id;
select is((pg_temp.task((select id from in_extraction))).customer, 'acme', 'the customer is the extraction''s by default');
select results_eq(
  $$select name, task_id, refusal from extraction_documents where extraction_id = (select id from extraction) order by id$$,
  $$values ('/Volumes/a.pdf', (select id from full_task), null::text), ('/b.pdf', (select id from in_extraction), null)$$,
  'both stand in the extraction');

-- dedup_key
select is(enqueue_task('_e1 parser', '/other.pdf', customer => 'umbrella', dedup_key => 'sha256:1'), (select id from full_task),
  'the same key of the same customer returns the task that holds it');
select is((pg_temp.task((select id from full_task))).document_path, '/Volumes/a.pdf', 'which stays as it was');
select isnt(enqueue_task('_e1 parser', '/a.pdf', customer => 'acme', dedup_key => 'sha256:1'), (select id from full_task),
  'another customer has tasks of its own');

-- text from outside
create temporary table odd as select enqueue_task('_e1 parser', E'/dir/"q"\\u0000 \n ä😀.pdf', payload => '{"t": "\u0000\ud83d", "b": "\\u0000"}') as id;
select is((pg_temp.task((select id from odd))).document_path, E'/dir/"q"\\u0000 \n ä😀.pdf', 'a path is kept letter by letter');
select is((pg_temp.task((select id from odd))).payload, U&'{"t": "\FFFD\FFFD", "b": "\\\\u0000"}'::jsonb, 'a payload is cleaned');

create temporary table before as select count(*) as n from tasks;
select throws_ok($$select enqueue_task('_e1 nobody', '/a.pdf')$$, 'LQ404', null, 'an unknown agent is refused');
select throws_ok($$select enqueue_task(null, '/a.pdf')$$, 'LQ404', null, 'so is null');
select throws_ok($$select enqueue_task('_e1 parser', null)$$, 'LQ400', null, 'a path is needed');
select throws_ok($$select enqueue_task('_e1 parser', '')$$, 'LQ400', null, 'and not empty');
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf', null)$$, 'LQ400', null, 'a priority of null is refused');
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf', 10)$$, 'LQ400', null, 'a priority of 10 is');
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf', -1)$$, 'LQ400', null, 'a negative one is');
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf', 2147483647)$$, 'LQ400', null, 'and a huge one');
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf', extraction => -1)$$, 'LQ404', null, 'an unknown extraction is refused');
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf', page_count => -1)$$, 'LQ400', null, 'negative pages are');
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf', dedup_key => '')$$, 'LQ400', null, 'an empty dedup_key is');
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf', payload => '{"n": 1e200000}')$$, 'LQ422', null, 'a payload that cannot be stored is');
select is((select count(*) from tasks), (select n from before), 'none of these enqueued anything');

set session authorization test_app;
select lives_ok($$select enqueue_task('_e1 parser', '/a.pdf')$$, 'an application may enqueue');
set session authorization test_web;
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf')$$, 'LQ403', null, 'the web process may not by itself');
set session authorization test_worker;
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf')$$, '42501', null, 'a worker may not');
set session authorization test_agent;
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf')$$, '42501', null, 'an agent may not');
set session authorization test_operator;
select throws_ok($$select enqueue_task('_e1 parser', '/a.pdf')$$, '42501', null, 'an operator as such may not');
set session authorization test_owner;
select is((select count(*) from tasks), (select n + 1 from before), 'one more task is there');

select * from finish();
rollback;
