-- One document per element, in order; refused ones get no task, known ones the task that holds their key
-- (test_enqueue_tasks.sql and test_enqueue_task.sql have the rest).
begin;
select plan(12);

select configure_agent('_en', tokens_per_task => 100, tokens_per_page => 10, estimate_factor => 1);
create temporary table batch as select create_extraction('_en', customer => 'acme') as id;
create temporary table answer as
select u.position, u.task_id, u.task_id is not distinct from u.new_id as created
from batch b cross join lateral _enqueue(
  '_en', null, b.id, array['a', 'b', 'c', 'd'], array['/a', '/b', null, '/d'], array[null, null, 'not_a_pdf', null],
  array[1, 2, 3, 4], array['{"x": 1}', null, null, null]::jsonb[], array['k2', 'k1', null, 'k2'], array[3, null, null, null],
  array[null, 100000, null, null]::bigint[]) e
cross join lateral unnest(e.task_ids, e.new_ids) with ordinality u(task_id, new_id, position);
select results_eq(
  $$select a.position, a.created, t.document_path, t.priority::integer, t.payload, t.dedup_key, t.customer, t.estimated_tokens
    from answer a left join tasks t on t.id = a.task_id order by a.position$$,
  $$values (1::bigint, true, '/a', 1, '{"x": 1}'::jsonb, 'k2', 'acme', 130::bigint), (2, true, '/b', 2, null, 'k1', 'acme', 120),
           (3, false, null, null, null, null, null, null), (4, false, '/a', 1, '{"x": 1}', 'k2', 'acme', 130)$$,
  'a row per document, in order; the last is the first one''s task');
select results_eq(
  'select d.name, d.task_id is null, d.refusal from extraction_documents d join batch b on b.id = d.extraction_id order by d.id',
  $$values ('a', false, null), ('b', false, null), ('c', true, 'not_a_pdf'), ('d', false, null)$$, 'as they stand in the submission');
select results_eq($$select tasks from task_deltas where agent_id = (_agent('_en')).id$$, 'values (2::bigint)', 'two were made');
select results_eq($$select task_ids, new_ids from _enqueue('_en', null, null, null, null, null, null, null, null, null, null)$$,
                  $$values ('{}'::bigint[], '{}'::bigint[])$$, 'of nothing comes nothing');
select is((select count(*) from task_deltas where agent_id = (_agent('_en')).id), 1::bigint, 'nor a delta');

-- A task that runs and was asked to cancel gives its key up: who submits the document once more wants it done.
select set_person('_en ann', 'operator');
create temporary table first as select enqueue_task('_en', '/again', dedup_key => 'again') as id;
create temporary table run as select d.* from dequeue_tasks('_en w', 100, array['_en']) d where d.task_id = (select id from first);
select is(enqueue_task('_en', '/again', dedup_key => 'again'), id, 'while it runs it is the document''s task') from first;
select cancel_task(id, '_en ann', 'no more') from first;
create temporary table second as select enqueue_task('_en', '/again', dedup_key => 'again') as id;
select isnt(second.id, first.id, 'once it is to be cancelled there is a new one') from first, second;
select is(enqueue_task('_en', '/again', dedup_key => 'again'), id, 'one') from second;
select is(t.dedup_key, null, 'the key is the new one''s alone') from tasks t join first using (id);
select record_callback(attempt_id, callback_token, 'cancelled') from run;
select results_eq($$select t.id = (select id from second), t.status::text, t.dedup_key from tasks t where t.document_path = '/again' order by t.id$$,
  $$values (false, 'cancelled', null), (true, 'enqueued', 'again')$$, 'so that it survives the other''s end');
-- One that completed all the same keeps its key: it is done.
create temporary table rerun as select d.* from dequeue_tasks('_en w', 100, array['_en']) d where d.task_id = (select id from second);
select cancel_task(id, '_en ann', 'too late') from second;
select record_callback(attempt_id, callback_token, 'success', '{}') from rerun;
select is(enqueue_task('_en', '/again', dedup_key => 'again'), id, 'but not once it completed all the same') from second;

set session authorization test_app;
select throws_ok($$select lakequeue._enqueue('_en', null, null, null, null, null, null, null, null, null, null)$$, '42501', null,
                 'it is internal: an application may not call it');
set session authorization test_owner;
select * from finish();
rollback;
