-- Documents as rows, in the order given; whatever has another shape is refused with LQ422 and says which key or value.
begin;
select plan(27);

select results_eq(
  $$select * from _documents('[
      {"document_path": "/b.pdf", "name": "b", "priority": 9, "payload": {"x": [1]}, "dedup_key": "k",
       "page_count": 3, "document_bytes": 5000000000},
      {"document_path": "/a.pdf"},
      {"name": "c.txt", "refusal": "not_a_pdf"},
      {}]')$$,
  $$values
    (1, 'b', '/b.pdf', null::text, 9, '{"x": [1]}'::jsonb, 'k', 3, 5000000000::bigint),
    (2, '/a.pdf', '/a.pdf', null, null, null, null, null, null),
    (3, 'c.txt', null, 'not_a_pdf', null, null, null, null, null),
    (4, null, null, null, null, null, null, null, null)$$,
  'all keys are read, in order; the name is the path by default');
select is(
  (select array_agg(d.position = substr(d.document_path, 2)::integer) <@ array[true] and count(*) = 2000
   from _documents((select jsonb_agg(jsonb_build_object('document_path', '/' || n) order by n) from generate_series(1, 2000) n)) d),
  true, 'thousands keep their order');
select results_eq(
  $$select name, document_path, payload, dedup_key, page_count from _documents('[{"document_path": "/a.pdf", "name": null,
      "payload": null, "dedup_key": null, "page_count": null}]')$$,
  $$values ('/a.pdf', '/a.pdf', null::jsonb, null::text, null::integer)$$,
  'a key of null is as good as none');
select is((select count(*) from _documents('[]')), 0::bigint, 'no documents, no rows');
select is((select payload from _documents('[{"payload": {"a": null, "b": []}}]')), '{"a": null, "b": []}'::jsonb,
  'a payload is left as it is');

select throws_ok($$select * from _documents('[{"document_path": "/a"}, {"path": "/b"}]')$$, 'LQ422',
  'document 2 has the unknown key "path"', 'a misspelt key is named');
select throws_ok($$select * from _documents('[{"Document_path": "/a"}]')$$, 'LQ422', null, 'keys differ in case');
select throws_ok($$select * from _documents('{"document_path": "/a"}')$$, 'LQ422', null, 'an object alone is no array');
select throws_ok($$select * from _documents('"/a.pdf"')$$, 'LQ422', null, 'nor is a string');
select throws_ok($$select * from _documents('null')$$, 'LQ422', null, 'nor a JSON null');
select throws_ok($$select * from _documents('["/a.pdf"]')$$, 'LQ422', null, 'an array of strings has the wrong shape');
select throws_ok($$select * from _documents('[null]')$$, 'LQ422', null, 'so has one of null');
select throws_ok($$select * from _documents('[[{"document_path": "/a"}]]')$$, 'LQ422', null, 'and one of arrays');
select throws_ok($$select * from _documents('[{"document_path": "/a"}, 7]')$$, 'LQ422', null, 'also behind a good one');
select throws_ok($$select * from _documents('[{"page_count": "three"}]')$$, 'LQ422', null, 'a number must be one');
select throws_ok($$select * from _documents('[{"page_count": 1.5}]')$$, 'LQ422', null, 'and whole');
select throws_ok($$select * from _documents('[{"page_count": 3000000000}]')$$, 'LQ422', null, 'and in range');
select throws_ok($$select * from _documents('[{"document_bytes": 1e30}]')$$, 'LQ422', null, 'also a large one');
select throws_ok($$select * from _documents('[{"priority": true}]')$$, 'LQ422', null, 'true is no priority');
select throws_ok($$select * from _documents('[{"page_count": {}}]')$$, 'LQ422', null, 'an object is no number');
select throws_ok($$select * from _documents('[{"document_path": {"at": "/a"}}]')$$, 'LQ422', null, 'an object is no path');
select throws_ok($$select * from _documents('[{"document_path": ["/a"]}]')$$, 'LQ422', null, 'an array is no path');
select throws_ok($$select * from _documents('[{"document_path": 7}]')$$, 'LQ422', null, 'a number is no path');
select throws_ok($$select * from _documents('[{"name": {"a": 1}, "refusal": "x"}]')$$, 'LQ422', null, 'an object is no name');
select throws_ok($$select * from _documents('[{"name": "a", "refusal": true}]')$$, 'LQ422', null, 'true is no reason');
select throws_ok($$select * from _documents('[{"document_path": "/a", "dedup_key": 17}]')$$, 'LQ422', null, 'a number is no dedup_key');

set session authorization test_app;
select throws_ok($$select * from lakequeue._documents('[]')$$, '42501', null, 'it is internal: an application may not call it');
set session authorization test_owner;

select * from finish();
rollback;
