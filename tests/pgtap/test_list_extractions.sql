-- list_extractions: newest first, pages that neither repeat nor leave out, and counts that equal extraction_progress.
begin;
\ir scenarios.sql
select plan(11);

select new_agent() as agent \gset
select create_extraction('first', 'acme', 'ann') as first \gset
select create_extraction('second') as second \gset
select create_extraction('empty') as empty \gset
select enqueue_tasks(:'agent', json_build_array(
  json_build_object('document_path', '/a.pdf', 'dedup_key', 'a'), json_build_object('document_path', '/b.pdf'),
  json_build_object('document_path', '/c.pdf'), json_build_object('document_path', '/d.pdf'),
  json_build_object('document_path', '/e.pdf'),
  json_build_object('name', 'f.txt', 'refusal', 'not_a_pdf')), extraction => :first, customer => 'acme');
-- b completed, c failed, d cancelled, e processing, a enqueued
select d.attempt_id as b, d.task_id as b_task from dequeue_tasks('w', 2, array[:'agent']) d where d.document_path = '/b.pdf' \gset
do $$
declare
  v_row record;
begin
  for v_row in select t.id, t.document_path from tasks t where t.extraction_id is not null and t.status = 'enqueued'
               and t.created_at = '2026-01-01 12:00+00' loop
    if v_row.document_path = '/d.pdf' then
      perform cancel_task(v_row.id, actor => 'ops');
    end if;
  end loop;
end $$;
select report(:b, 'success', '1');
select d.attempt_id as c from dequeue_tasks('w', 1, array[:'agent']) d \gset
select report(:c, 'permanent_failure');
select enqueue_tasks(:'agent', json_build_array(
  json_build_object('document_path', '/g.pdf', 'dedup_key', 'g'),
  json_build_object('document_path', '/g.pdf', 'dedup_key', 'g')), extraction => :second);

select results_eq(
  format('select l.extraction_id, l.name, l.customer, l.submitted_by from list_extractions(3) l'),
  format($$ values (%s::bigint, 'empty', '', session_user::text collate "default"), (%s, 'second', '', session_user::text collate "default"), (%s, 'first', 'acme', 'ann') $$,
         :empty, :second, :first), 'newest first');
select results_eq(
  'select l.documents, l.refused, l.enqueued, l.processing, l.completed, l.failed, l.cancelled from list_extractions(3) l',
  format('select p.* from unnest(array[%s, %s, %s]) with ordinality e(id, n) cross join lateral extraction_progress(e.id) p order by e.n',
         :empty, :second, :first), 'each as far as extraction_progress says');
select results_eq('select l.documents, l.refused, l.completed, l.failed, l.cancelled, l.enqueued + l.processing from list_extractions(3) l offset 2',
  $$ values (6::bigint, 1::bigint, 1::bigint, 1::bigint, 1::bigint, 2::bigint) $$, 'which is right');
select is((select l.documents from list_extractions(3) l where l.name = 'second'), 2::bigint, 'a file sent twice counts twice');
select results_eq(format('select l.extraction_id from list_extractions(1, %s) l', :empty), format('values (%s::bigint)', :second),
  'the page after the first');
select is_empty('select list_extractions(1, 0)', 'nothing before the first');

select refused(format('select list_extractions(%s)', n), 'LQ400', 'page_size ' || n) from unnest(array['0', '101', 'null']) n;

set session authorization test_web;
select lives_ok('select list_extractions()', 'the web process may ask');
set session authorization test_agent;
select throws_ok('select list_extractions()', '42501', null, 'an agent may not');

select * from finish();
rollback;
