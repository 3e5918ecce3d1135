-- How far a submission is: every document in one state, also refused and repeated ones.
begin;
\ir scenarios.sql
select plan(11);

select configure_agent('_ep parser');
create temporary table made as select create_extraction('March', 'acme') as id, create_extraction('April', 'acme') as other;
create function pg_temp.progress() returns text language sql as $$
  select format('%s documents: %s refused, %s enqueued, %s processing, %s completed, %s failed, %s cancelled',
                p.documents, p.refused, p.enqueued, p.processing, p.completed, p.failed, p.cancelled)
  from pg_temp.made m cross join lateral lakequeue.extraction_progress(m.id) p
$$;
select is(pg_temp.progress(), '0 documents: 0 refused, 0 enqueued, 0 processing, 0 completed, 0 failed, 0 cancelled', 'an empty one has nothing');
create temporary table document as
select e.* from made, enqueue_tasks('_ep parser', '[{"document_path": "/1", "dedup_key": "1"}, {"document_path": "/2"}, {"document_path": "/3"},
  {"document_path": "/4"}, {"document_path": "/5"}, {"document_path": "/1 again", "dedup_key": "1"}, {"name": "x.txt", "refusal": "not_a_pdf"}]', extraction => made.id) e;
select enqueue_task('_ep parser', '/other', extraction => other) from made;
select is(pg_temp.progress(), '7 documents: 1 refused, 6 enqueued, 0 processing, 0 completed, 0 failed, 0 cancelled', 'a file sent twice counts twice; other extractions do not count');

create temporary table claim as select * from dequeue_tasks('w', 4, array['_ep parser']);
select is(pg_temp.progress(), '7 documents: 1 refused, 1 enqueued, 5 processing, 0 completed, 0 failed, 0 cancelled', 'claimed ones are processing');
select report(attempt_id, 'success', '1') from claim where document_path = '/1';
select report(attempt_id, 'permanent_failure') from claim where document_path = '/2';
select cancel_task(task_id, actor => 'ops') from document where position = 5;
select is(pg_temp.progress(), '7 documents: 1 refused, 0 enqueued, 2 processing, 2 completed, 1 failed, 1 cancelled', 'each document is where its task is');

-- A task of an earlier extraction counts where it was sent again.
select enqueue_tasks('_ep parser', '[{"document_path": "/1 once more", "dedup_key": "1"}]', extraction => other) from made;
select results_eq('select p.documents, p.completed, p.enqueued from made, extraction_progress(other) p', 'values (2::bigint, 1::bigint, 1::bigint)',
  'an earlier task counts in every extraction that it was sent with');

select refused('select * from extraction_progress(-1)', 'LQ404', 'an unknown extraction is refused');
select refused('select * from extraction_progress(null)', 'LQ404', 'so is null');

grant select on made to public;
set session authorization test_web;
select is((select documents from made, lakequeue.extraction_progress(id)), 7::bigint, 'the web process may ask');
set session authorization test_reader;
select is((select documents from made, lakequeue.extraction_progress(id)), 7::bigint, 'a reader may');
set session authorization test_owner;
select not_for('test_worker', 'select * from lakequeue.extraction_progress(1)');
select not_for('test_agent', 'select * from lakequeue.extraction_progress(1)');

select * from finish();
rollback;
