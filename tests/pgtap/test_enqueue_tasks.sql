-- Many documents in one call: each with a row and a place of its own, existing and refused ones included; one that is
-- bad refuses all.
begin;
select plan(64);

select set_clock('2026-03-01 09:00+00');
select configure_agent('_en parser', tokens_per_task => 100, tokens_per_page => 1000, estimate_factor => 1), configure_agent('_en other');
create temporary table extraction as select create_extraction('March', 'acme') as id;

-- a mixed call
create temporary table held as select enqueue_task('_en parser', '/held.pdf', customer => 'acme', dedup_key => 'held') as id;
create temporary table answer as
select * from enqueue_tasks('_en parser', '[
  {"document_path": "/z.pdf", "priority": 9, "payload": {"a": null}, "dedup_key": "z", "page_count": 2, "document_bytes": 99},
  {"name": "notes.txt", "refusal": "not_a_pdf"},
  {"document_path": "/again.pdf", "name": "again", "dedup_key": "held"},
  {"document_path": "/a.pdf"},
  {"document_path": "/twice.pdf", "name": "the same", "dedup_key": "z"},
  {"document_path": "/b.pdf", "priority": 0}]', 7, extraction => (select id from extraction));
select results_eq('select position, task_id is not null, created from answer',
  $$values (1, true, true), (2, false, false), (3, true, false), (4, true, true), (5, true, false), (6, true, true)$$,
  'each document has an answer, in order: created, refused or there already');
select is((select task_id from answer where position = 3), (select id from held), 'an existing task is told by its id');
select is((select task_id from answer where position = 5), (select task_id from answer where position = 1),
  'a key that comes twice in a call makes one task');
select results_eq(
  $$select t.document_path, t.priority::integer, t.customer, t.payload, t.dedup_key, t.page_count, t.document_bytes, t.estimated_tokens, t.extraction_id
    from answer a join tasks t on t.id = a.task_id where a.created order by a.position$$,
  $$values ('/z.pdf', 9, 'acme', '{"a": null}'::jsonb, 'z', 2, 99::bigint, 2100::bigint, (select id from extraction)),
           ('/a.pdf', 7, 'acme', null, null, null, null, 1100, (select id from extraction)),
           ('/b.pdf', 0, 'acme', null, null, null, null, 1100, (select id from extraction))$$,
  'the new ones are as described; priority and customer come from the call and the extraction');
select ok((select bool_and(t.id > before) from (
    select a.task_id as id, lag(a.task_id, 1, 0::bigint) over (order by a.position) as before from answer a where a.created) t),
  'ids ascend in the order of the call, so that equal ones are worked on in it');
select results_eq(
  $$select name, task_id, refusal from extraction_documents where extraction_id = (select id from extraction) order by id$$,
  $$select d.name, (select a.task_id from answer a where a.position = d.position), d.refusal
    from (values (1, '/z.pdf', null), (2, 'notes.txt', 'not_a_pdf'), (3, 'again', null), (4, '/a.pdf', null), (5, 'the same', null),
                 (6, '/b.pdf', null)) d(position, name, refusal) order by d.position$$,
  'all six stand in the extraction, in order');
select is((select tasks from queue_metrics(agents => array['_en parser'], statuses => array['enqueued'])), 4::bigint,
  'the metrics count what was created, once');

-- keys
select results_eq(
  $$select a.task_id = (select id from held), a.created from enqueue_tasks('_en parser', '[{"document_path": "/x", "dedup_key": "held"}]', customer => 'acme') a$$,
  $$values (true, false)$$, 'a key is known also without the extraction');
select is((select created from enqueue_tasks('_en parser', '[{"document_path": "/x", "dedup_key": "held"}]')), true,
  'another customer (here: none) has keys of its own');
select results_eq(
  $$select t.customer, e.created from enqueue_tasks('_en parser', '[{"document_path": "/y", "dedup_key": "held"}]') e join tasks t on t.id = e.task_id$$,
  $$values ('', false)$$, 'and gets the task of its own key');
select is((select task_id from enqueue_tasks('_en parser', '[{"document_path": "/y", "dedup_key": "held"}]', customer => 'acme')), (select id from held),
  'as does the first one');
select is((select created from enqueue_tasks('_en other', '[{"document_path": "/x", "dedup_key": "held"}]', customer => 'acme')), true,
  'so has another agent');
select is((select created from enqueue_tasks('_en parser', '[{"document_path": "/x", "dedup_key": "HELD"}]', customer => 'acme')), true,
  'keys differ in case');
select is((select count(distinct task_id) from enqueue_tasks('_en parser', '[{"document_path": "/x"}, {"document_path": "/x"}]')), 2::bigint,
  'without keys the same path twice makes two tasks');

create function pg_temp.set_status(task bigint, status task_status) returns void language sql as $$
  update lakequeue.tasks t set status = 'processing', locked_by = 'w', lease_expires_at = lakequeue._now() where t.id = task;
  update lakequeue.tasks t set status = set_status.status, locked_by = null, lease_expires_at = null, finished_at = lakequeue._now()
  where t.id = task
$$;
create function pg_temp.created_again(status task_status) returns boolean language plpgsql as $$
declare v_task bigint; v_created boolean;
begin
  select e.task_id into strict v_task
  from lakequeue.enqueue_tasks('_en parser', json_build_array(json_build_object('document_path', '/s', 'dedup_key', status)), customer => 'again') e
  where e.created;
  perform pg_temp.set_status(v_task, status);
  select e.created into v_created
  from lakequeue.enqueue_tasks('_en parser', json_build_array(json_build_object('document_path', '/s', 'dedup_key', status)), customer => 'again') e;
  return v_created;
end $$;
select is(pg_temp.created_again('completed'), false, 'a completed task holds its key');
select is(pg_temp.created_again('failed'), true, 'a failed one does not');
select is(pg_temp.created_again('cancelled'), true, 'a cancelled one does not');

-- many, few, odd
select is((select count(*) from enqueue_tasks('_en other', '[]')), 0::bigint, 'no documents, no tasks');
select results_eq(
  $$select count(*), count(distinct task_id), count(*) filter (where created), min(position), max(position)
    from enqueue_tasks('_en other', (select json_agg(json_build_object('document_path', '/' || n, 'dedup_key', (n % 900)::text) order by n)
                                     from generate_series(1, 1000) n), customer => 'many')$$,
  $$values (1000::bigint, 900::bigint, 900::bigint, 1, 1000)$$, 'hundreds in one call, some with the same key');
create temporary table odd as
select * from enqueue_tasks('_en other', '[{"document_path": "/\u0000\ud83d.pdf", "payload": {"x": "\\u0000\u0000"}},
  {"name": "\u0000", "refusal": "\ude00"}, {"document_path": "/null", "payload": null, "priority": null, "dedup_key": null}]',
  extraction => (select id from extraction));
select results_eq(
  $$select t.document_path, t.payload, t.priority::integer from odd o join tasks t on t.id = o.task_id order by o.position$$,
  $$values (U&'/\FFFD\FFFD.pdf', U&'{"x": "\\\\u0000\FFFD"}'::jsonb, 5), ('/null', null, 5)$$,
  'U+0000 and lone surrogates become U+FFFD; nulls are as good as not given');
select is((select array[name, refusal] from extraction_documents where extraction_id = (select id from extraction) and refusal <> 'not_a_pdf'),
  array[U&'\FFFD', U&'\FFFD'], 'in names and reasons too');
select lives_ok(format(
  $$select enqueue_tasks('_en other', '[{"document_path": "%s", "dedup_key": "%s", "payload": "%s"}]', customer => '%s')$$,
  repeat('ü', 4096), repeat('ü', 200), repeat('x', 8100), repeat('ü', 200)), 'the longest of everything');
select enqueue_tasks('_en other', json_build_array(json_build_object('name', 'long', 'refusal', repeat('ü', 5000))),
                     extraction => (select id from extraction));
select is((select refusal from extraction_documents where name = 'long' and extraction_id = (select id from extraction)), repeat('ü', 4000),
  'a long reason is cut');

-- refused as a whole
create temporary table before as select (select count(*) from tasks) as tasks, (select count(*) from extraction_documents) as documents,
  (select count(*) from task_deltas) as deltas;
select throws_ok(format($$select enqueue_tasks('_en parser', '[{"document_path": "/good.pdf"}, %s]', extraction => %s)$$, d.document, e.id), d.code, null,
  left(d.document, 60) || ' is ' || d.code)
from extraction e, (values
  ('{"document_path": ""}', 'LQ400'), ('{}', 'LQ400'), ('{"document_path": null}', 'LQ400'),
  ('{"document_path": "/a", "priority": 10}', 'LQ400'), ('{"document_path": "/a", "priority": -1}', 'LQ400'),
  ('{"document_path": "/a", "priority": 40000}', 'LQ400'),
  ('{"document_path": "/a", "page_count": -1}', 'LQ400'), ('{"document_path": "/a", "document_bytes": -1}', 'LQ400'),
  ('{"document_path": "/a", "dedup_key": ""}', 'LQ400'),
  ('{"document_path": "/a", "page_count": 2147483647, "name": "huge"}', 'LQ400'),
  ('{"document_path": "/a", "document_bytes": 9223372036854775807}', 'LQ400'),
  ('{"refusal": "no name"}', 'LQ400'), ('{"document_path": "/a", "name": ""}', 'LQ400'),
  ('{"path": "/a"}', 'LQ422'), ('{"document_path": "/a", "page_count": "many"}', 'LQ422'), ('"/a"', 'LQ422'), ('null', 'LQ422'),
  ('{"document_path": "/a", "payload": 1e200000}', 'LQ422')) d(document, code);
select throws_ok(format($$select enqueue_tasks('_en parser', '[{"document_path": "/good.pdf"}, {%s}]')$$, d.document), 'LQ400', null, d.name)
from (values
  (format('"document_path": "%s"', repeat('x', 4097)), 'a path of 4097 characters is LQ400'),
  (format('"document_path": "/a", "dedup_key": "%s"', repeat('x', 201)), 'a dedup_key of 201 characters is'),
  (format('"document_path": "/a", "payload": "%s"', repeat('x', 9000)), 'a payload of 9 kB is')) d(document, name);
select throws_ok(format($$select enqueue_tasks('_en parser', '[{"document_path": "/good.pdf", "name": "%s"}]', extraction => %s)$$, repeat('x', 4097), id),
  'LQ400', null, 'a name of 4097 characters is') from extraction;
select throws_ok($$select enqueue_tasks('_en parser', '[{"document_path": "/a"}]', customer => repeat('x', 201))$$, 'LQ400', null,
  'a customer of 201 characters is');
select throws_ok($$select enqueue_tasks('_en parser', '[{"document_path": "/a"}]', null)$$, 'LQ400', null, 'a priority of null is');
select throws_ok($$select enqueue_tasks('_en parser', '[{"document_path": "/a"}]', 10)$$, 'LQ400', null, 'a priority of 10 is');
select throws_ok($$select enqueue_tasks('_en nobody', '[]')$$, 'LQ404', null, 'an unknown agent is LQ404, even for nothing');
select throws_ok($$select enqueue_tasks(null, '[]')$$, 'LQ404', null, 'so is null');
select throws_ok($$select enqueue_tasks('_en parser', '[]', extraction => -1)$$, 'LQ404', null, 'so is an unknown extraction');
select throws_ok($$select enqueue_tasks('_en parser', null)$$, 'LQ422', null, 'no documents at all is LQ422');
select throws_ok($$select enqueue_tasks('_en parser', 'null')$$, 'LQ422', null, 'so is a JSON null');
select throws_ok($$select enqueue_tasks('_en parser', '{"document_path": "/a"}')$$, 'LQ422', null, 'so is an object');
select throws_ok($$select enqueue_tasks('_en parser', ('[{"document_path": "/a", "payload": "' || repeat('x', 64 * 1024 * 1024) || '"}]')::json)$$,
  'LQ413', null, 'more than 64 MB are LQ413');
select results_eq(
  $$select (select count(*) from tasks), (select count(*) from extraction_documents), (select count(*) from task_deltas)$$,
  'select * from before', 'none of these left anything');

set session authorization test_app;
select is((select count(*) from enqueue_tasks('_en parser', '[{"document_path": "/app.pdf"}]')), 1::bigint, 'an application may enqueue');
set session authorization test_web;
select throws_ok($$select enqueue_tasks('_en parser', '[{"document_path": "/web.pdf"}]')$$, 'LQ403', null,
  'the web process may not without an extraction');
set session authorization test_owner;
select set_person('_en ann', 'operator'), set_person('_en vic', 'operator');
set session authorization test_web;
select create_extraction('x', submitted_by => '_en ann') as anns, create_extraction('x', submitted_by => '_en vic') as vics \gset
select is((select count(*) from enqueue_tasks('_en parser', '[{"document_path": "/web.pdf"}]', extraction => :anns)), 1::bigint,
  'into one that an operator opened it may');
set session authorization test_app;
select create_extraction('x') as apps \gset
set session authorization test_owner;
select set_person('_en vic', 'viewer');
set session authorization test_web;
select throws_ok(format($$select enqueue_tasks('_en parser', '[{"document_path": "/web.pdf"}]', extraction => %s)$$, :vics), 'LQ403', null,
  'but not any more when the operator became a viewer');
select throws_ok(format($$select enqueue_tasks('_en parser', '[{"document_path": "/web.pdf"}]', extraction => %s)$$, :apps), 'LQ403', null,
  'nor into an extraction of an application');
select throws_ok($$select enqueue_tasks('_en parser', '[]', extraction => -1)$$, 'LQ404', null, 'an unknown one is said to be unknown');
set session authorization test_worker;
select throws_ok($$select enqueue_tasks('_en parser', '[]')$$, '42501', null, 'a worker may not');
set session authorization test_reader;
select throws_ok($$select enqueue_tasks('_en parser', '[]')$$, '42501', null, 'a reader may not');
set session authorization test_owner;

select * from finish();
rollback;
