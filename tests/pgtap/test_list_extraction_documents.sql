-- list_extraction_documents: what extraction_results says, a page at a time, without texts, with what is repeated.
begin;
\ir scenarios.sql
select plan(23);

select new_agent() as agent \gset
select create_extraction('earlier') as earlier \gset
select create_extraction('now') as now \gset
select enqueue_tasks(:'agent', '[{"document_path": "/a.pdf", "dedup_key": "a", "page_count": 2}]', extraction => :earlier);
select d.attempt_id as a from dequeue_tasks('w', 1, array[:'agent']) d \gset
select report(:a, 'success', '{"document_type": "invoice", "fields": {"total": {"value": 7, "confidence": 0.9}},
  "pages": [{"number": 1, "text": "seven", "characters": 5}, {"number": 2, "text": "", "characters": 0}, {"characters": "no number"}]}',
  0.9, input_tokens => 100, output_tokens => 10, llm_cost => 0.5);
select enqueue_tasks(:'agent', '[
  {"document_path": "/a.pdf", "name": "copy of a.pdf", "dedup_key": "a"},
  {"name": "notes.txt", "refusal": "not_a_pdf: The file is not a PDF."},
  {"document_path": "/b.pdf", "dedup_key": "b"},
  {"document_path": "/b.pdf", "name": "b again.pdf", "dedup_key": "b"},
  {"document_path": "/c.pdf"}]', extraction => :now);
select d.attempt_id as b from dequeue_tasks('w', 1, array[:'agent']) d \gset
select report(:b, 'success', '"plain"');
select d.attempt_id as c from dequeue_tasks('w', 1, array[:'agent']) d \gset
select report(:c, 'permanent_failure', error => '"broken"');

create temporary table l as select * from list_extraction_documents(:now);
select results_eq(
  'select l.position, l.document, l.task_id, l.status, l.confidence, l.input_tokens, l.output_tokens, l.llm_cost, l.attempts, l.error
   from l order by l.position',
  format('select r.position::bigint, r.document, r.task_id, r.status, r.confidence, r.input_tokens, r.output_tokens, r.llm_cost, r.attempts, r.error
          from extraction_results(%s) r', :now), 'what extraction_results says');
select results_eq('select l.refused from l order by l.position', 'values (false), (true), (false), (false), (false)', 'which are refused');
select results_eq('select l.repeated from l order by l.position', 'values (true), (false), (false), (true), (false)',
  'which were there before, in another extraction or in this one');
select is((select l.result from l where l.position = 1),
  '{"document_type": "invoice", "fields": {"total": {"value": 7, "confidence": 0.9}}}'::jsonb, 'a result without its texts');
select is((select l.result from l where l.position = 3), '"plain"'::jsonb, 'a result that is no object, as it is');
select is((select l.characters from l where l.position = 1), 5::bigint, 'how much text the pages have');
select is((select l.characters from l where l.position = 3), null::bigint, 'not known where there are no pages');
select is((select l.page_count from l where l.position = 1), 2, 'the number of pages');
select is((select l.status || ': ' || l.error from l where l.position = 2), 'failed: not_a_pdf: The file is not a PDF.', 'why one was refused');
select is((select l.finished_at from l where l.position = 1), '2026-01-01 12:00+00'::timestamptz, 'when it was finished');

select results_eq(
  format('select p.position, p.document_id from list_extraction_documents(%s, 2) p', :now),
  'select l.position, l.document_id from l where l.position <= 2 order by 1', 'the first page');
select results_eq(
  format('select p.position, p.document_id, p.repeated from list_extraction_documents(%s, 2, %s) p', :now,
         (select l.document_id from l where l.position = 2)),
  'select l.position, l.document_id, l.repeated from l where l.position in (3, 4) order by 1', 'the second goes on where the first ended');
select is_empty(format('select list_extraction_documents(%s, 2, %s)', :now, (select max(l.document_id) from l)), 'nothing after the last');
select is_empty(format('select list_extraction_documents(%s)', create_extraction('empty')), 'nothing in an empty extraction');

select refused(format('select list_extraction_documents(%s, %s)', :now, n), 'LQ400', 'page_size ' || n) from unnest(array['0', '1001', 'null']) n;
select refused('select list_extraction_documents(0)', 'LQ404', 'an extraction that there is not');
select refused('select list_extraction_documents(null)', 'LQ404', 'no extraction');

set session authorization test_reader;
select lives_ok(format('select list_extraction_documents(%s)', :now), 'a reader may ask');
set session authorization test_app;
select throws_ok(format('select list_extraction_documents(%s)', :now), '42501', null, 'an app may not');

-- Whatever one result says of itself, the others can be read.
set session authorization test_owner;
update results r set result = '{"pages": [{"characters": 1e19}, {"characters": 1e300}]}' where r.attempt_id = :b;
select is((select l.characters from list_extraction_documents(:now) l where l.position = 3), 2000000000::bigint, 'a count beyond all numbers');
update results r set result = '{"pages": [{"characters": -1e19}]}' where r.attempt_id = :b;
select is((select l.characters from list_extraction_documents(:now) l where l.position = 3), 0::bigint, 'or below 0');

select * from finish();
rollback;
