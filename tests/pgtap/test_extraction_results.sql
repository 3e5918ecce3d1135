-- What became of each document of a submission, in the order it was sent.
begin;
\ir scenarios.sql
select plan(10);

select configure_agent('_er parser', max_attempts => 3);
create temporary table made as select create_extraction('March', 'acme') as id;
select enqueue_tasks('_er parser', '[{"document_path": "/v/1.pdf", "name": "one.pdf", "dedup_key": "1"}, {"name": "x.txt", "refusal": "not_a_pdf"},
  {"document_path": "/2"}, {"document_path": "/3"}, {"document_path": "/4"}, {"document_path": "/1 again", "dedup_key": "1"}]', extraction => id) from made;
create temporary table claim as select * from dequeue_tasks('w', 3, array['_er parser']);
select report(attempt_id, 'failure', input_tokens => 100, output_tokens => 10, llm_cost => 0.5, usage_complete => true, error => '"slow"') from claim where document_path = '/v/1.pdf';
select advance('10 seconds');
select sweep_leases();
select report(attempt_id, 'success', '{"total": 7}', 0.9, 200, 20, 0, 0.25, true) from dequeue_tasks('w', 1, array['_er parser']);
select report(attempt_id, 'permanent_failure', error => '"encrypted"') from claim where document_path = '/2';
select results_eq(
  $$select position, document, status, result, confidence, input_tokens, output_tokens, llm_cost, attempts, error from made, extraction_results(id)$$,
  $$values (1, 'one.pdf', 'completed', '{"total": 7}'::jsonb, 0.9::real, 300::bigint, 30::bigint, 0.75::numeric, 2, null::text),
           (2, 'x.txt', 'failed', null, null, null, null, null, 0, 'not_a_pdf'),
           (3, '/2', 'failed', null, null, null, null, null, 1, 'encrypted'),
           (4, '/3', 'processing', null, null, null, null, null, 1, null),
           (5, '/4', 'enqueued', null, null, null, null, null, 0, null),
           (6, '/1 again', 'completed', '{"total": 7}', 0.9, 300, 30, 0.75, 2, null)$$,
  'each has its state, result and usage of all attempts; a refused one is failed with its reason; a file sent twice stands twice');
select is((select array_agg(task_id is null order by position) from made, extraction_results(id)), '{f,t,f,f,f,f}', 'only a refused one has no task');
select is((select count(distinct task_id) from made, extraction_results(id)), 4::bigint, 'the file sent twice has one');
create temporary table empty as select create_extraction('empty') as id;
select is((select count(*) from empty, extraction_results(id)), 0::bigint, 'an empty extraction has no documents');

select refused('select * from extraction_results(-1)', 'LQ404', 'an unknown extraction is refused');
select refused('select * from extraction_results(null)', 'LQ404', 'so is null');

grant select on made to public;
set session authorization test_reader;
select is((select count(*) from made, lakequeue.extraction_results(id)), 6::bigint, 'a reader may ask');
set session authorization test_web;
select is((select count(*) from made, lakequeue.extraction_results(id)), 6::bigint, 'the web process may');
set session authorization test_owner;
select not_for('test_worker', 'select * from lakequeue.extraction_results(1)');
select not_for('test_agent', 'select * from lakequeue.extraction_results(1)');

select * from finish();
rollback;
