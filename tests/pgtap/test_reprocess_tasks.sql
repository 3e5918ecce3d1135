-- reprocess_tasks: a completed task gets a new one linked to it, which takes its dedup_key along; the old one and its
-- result stay as they are. The rest is skipped, with the reason.
begin;
\ir scenarios.sql
select plan(32);

select new_task() as waiting \gset
select new_agent() as agent \gset
select create_extraction('march', 'acme') as extraction \gset
select enqueue_task(:'agent', '/a.pdf', priority => 7, extraction => :extraction, payload => '{"x": 1}', dedup_key => 'k', page_count => 3, document_bytes => 99) as done \gset
select claim(:done) as attempt \gset
select report(:attempt, 'success', '"old"', 0.5, input_tokens => 5, output_tokens => 6, llm_cost => 0.5, usage_complete => true) \gset
select task_of(attempt_in('confirmed')) as plain \gset
select task_of(attempt_in('reported permanent failure')) as failed \gset
select task_of(attempt_in('reported that it stopped')) as cancelled \gset
select task_of(start()) as processing \gset
create temporary table before as select t.id, to_jsonb(t) as task from tasks t;
select max(t.id) as newest from tasks t \gset
select advance('1 day') \gset

set session authorization test_operator;
create temporary table answers as
select * from reprocess_tasks(array[:waiting, :plain, 0, :failed, :done, null, :processing, :cancelled], 'a better model') with ordinality;
grant select on answers to public;
set session authorization test_owner;
select results_eq(
  'select task_id, outcome from answers order by ordinality',
  format($$ values (%s::bigint, 'skipped'), (%s, 'enqueued'), (0, 'skipped'), (%s, 'skipped'), (%s, 'enqueued'), (null, 'skipped'), (%s, 'skipped'), (%s, 'skipped') $$,
         :waiting, :plain, :failed, :done, :processing, :cancelled), 'a row per task, in order');
select matches(a.detail, v.expected, 'reason: ' || v.expected)
from (values (:waiting, 'enqueued'), (:failed, 'failed'), (:cancelled, 'cancelled'), (:processing, 'processing'), (0, 'no such task')) v(task, expected)
left join answers a on a.task_id = v.task;
select is(count(*), 2::bigint, 'two new tasks') from tasks t where t.id > :newest;
select set_eq('select task_id, detail::bigint from answers where outcome = ''enqueued''',
              format('select reprocess_of, id from tasks where id > %s', :newest), 'whose ids are in detail');

select t.id as new from tasks t where t.reprocess_of = :done \gset
select task_is(:new, jsonb_build_object(
  'status', 'enqueued', 'customer', 'acme', 'document_path', '/a.pdf', 'payload', '{"x": 1}'::jsonb, 'dedup_key', 'k', 'priority', 7, 'extraction_id', :extraction,
  'page_count', 3, 'document_bytes', 99, 'created_at', _now(), 'attempt_count', 0, 'failures', 0, 'retry_at', null, 'error', null, 'finished_at', null),
  'the new one is to parse the same document, from now on, with the key');
select row_is(to_jsonb(t), (b.task - 'dedup_key'), 'the old one stays as it was, but for the key')
from before b left join tasks t on t.id = b.id where b.id = :done;
select is(t.dedup_key, null, 'which it gave away') from tasks t where t.id = :done;
select is(r.result, '"old"', 'its result stays') from (select null) one left join results r on r.attempt_id = :attempt;
select is_empty('select from before b join tasks t using (id) where b.task - ''dedup_key'' <> to_jsonb(t) - ''dedup_key''', 'nothing else about any old task changed');
select is(enqueue_task(:'agent', '/a.pdf', customer => 'acme', dedup_key => 'k'), :new::bigint, 'who sends the document again gets the new one');
select row_is(to_jsonb(e), jsonb_build_object('actor', 'test_operator', 'reason', 'a better model', 'detail', jsonb_build_object('new_task', :new)), 'an event says who, why and which')
from (select null) one left join task_events e on e.kind = 'reprocessed' and e.task_id = :done;
select ledger_is_exact();

-- The new task is a task like any other; the old one's late reports change nothing about it.
select is(report(:attempt, 'success', '"again"'), 'duplicate', 'the old attempt has reported');
select claim(:new) as second \gset
select is(report(:second, 'success', '"new"'), 'accepted', 'the new one succeeds');
select task_is(:new, '{"status": "completed"}', 'and is completed');
select is(r.result, '"old"', 'beside the old result') from results r where r.attempt_id = :attempt;

-- A task given twice in a call is reprocessed once.
select is(count(distinct detail), 1::bigint, 'a task twice in a call: one new task') from reprocess_tasks(array[:plain, :plain]);

-- --- who may ---------------------------------------------------------------------------------------------------------------

set session authorization test_web;
select refused(format('select reprocess_tasks(array[%s], ''x'', %L)', :done, actor), 'LQ403', coalesce(actor, 'nobody') || ' may not through the web process')
from unnest(array[null, 'stranger']) actor;
select is(outcome, 'enqueued', 'an operator may') from reprocess_tasks(array[:done], 'x', 'ops');
set session authorization test_owner;
select is_empty('select * from reprocess_tasks(''{}'')', 'no tasks, no answers');
select is_empty('select * from reprocess_tasks(null)', 'null neither');
select not_for(login, 'select lakequeue.reprocess_tasks(''{}'')')
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
