-- JSON that PostgreSQL stores and Python cannot read is refused wherever it would be handed to workers or pages: else a
-- worker fails at every claim of such a task, and one such result takes a whole batch's page away.
begin;
\ir scenarios.sql
select plan(15);

select lives_ok($$select _check_json(null)$$, 'nothing is nothing to refuse');
select lives_ok($$select _check_json('{"a": [1, -2.5, "x", null, true, {"b": 1e308}]}')$$, 'ordinary JSON passes');
select lives_ok($$select _check_json((repeat('[', 200) || repeat(']', 200))::jsonb)$$, 'so do 200 levels');
select lives_ok($$select _check_json(jsonb_build_object('n', repeat('9', 5000), 'f', 1e-5000))$$,
  'digits in a text, and what is tiny, are no trouble');
select throws_ok($$select _check_json((repeat('[', 201) || repeat(']', 201))::jsonb)$$, 'LQ422', null, '201 levels are');
select throws_ok($$select _check_json((repeat('{"a":', 201) || '1' || repeat('}', 201))::jsonb)$$, 'LQ422', null,
  'of objects, too');
select throws_ok($$select _check_json('{"a": [{"b": 1e309}]}')$$, 'LQ422', null, 'a number beyond a double');
select throws_ok($$select _check_json('[-1e5000]')$$, 'LQ422', null, 'however far');

-- where it is asked
select throws_ok(format($$select enqueue_task(%L, '/a.pdf', payload => (repeat('[', 900) || repeat(']', 900))::json)$$, new_agent()),
  'LQ422', null, 'a payload');
select throws_ok(format($$select enqueue_task(%L, '/a.pdf', payload => '{"n": 1e5000}')$$, new_agent()), 'LQ422', null,
  'also for its numbers');
select throws_ok($$select configure_agent('x', parameters => '{"n": 1e400}')$$, 'LQ422', null, 'an agent''s parameters');
select throws_ok(format($$select scenario.store(%s, (repeat('[', 900) || repeat(']', 900))::json)$$, start()), 'LQ422', null,
  'a result');
select throws_ok(format($$select scenario.report(%s, 'success', '{"n": 1e400}')$$, start()), 'LQ422', null,
  'one that comes with the report, too');
select lives_ok(format($$select scenario.report(%s, 'failure', error => (repeat('[', 900) || repeat(']', 900))::json)$$, start()),
  'an error is text, and cut, so it may say what it likes');

set session authorization test_agent;
select throws_ok('select lakequeue._check_json(''1'')', '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
