-- record_callbacks: each report of a batch is answered by itself and in order, as record_callback would, and one that
-- is refused stops none of the others.
begin;
\ir scenarios.sql
select plan(35);

-- --- one good report, one of every bad kind, and another good one -------------------------------------

select start() as good \gset
select start() as last \gset
select start() as untouched \gset
select start() as unsure \gset
create temporary table sent (number serial, callback jsonb, answer text, about text);
insert into sent (callback, answer, about) values
  (jsonb_build_object('attempt', :last, 'token', token(:last), 'outcome', 'failure', 'error', jsonb_build_object('message', 'broken')),
   'accepted', 'a later task first'),
  (jsonb_build_object('attempt', :good, 'token', token(:good), 'outcome', 'success', 'result', jsonb_build_object('a', 1), 'confidence', 0.5,
                      'input_tokens', 10, 'output_tokens', 2, 'cached_tokens', 1, 'llm_cost', 0.25, 'usage_complete', true,
                      'run_id', 5, 'trace_id', 'tr'), 'accepted', 'a success with everything'),
  (jsonb_build_object('attempt', :good, 'token', token(:good), 'outcome', 'failure'), 'duplicate', 'the same attempt again'),
  (jsonb_build_object('attempt', :unsure, 'token', token(:unsure), 'outcome', 'success'), 'result_missing', 'no result'),
  (jsonb_build_object('attempt', :unsure, 'token', token(:unsure), 'outcome', 'success', 'result', null), 'result_missing', 'a result of null'),
  (jsonb_build_object('attempt', :unsure::text, 'token', token(:unsure), 'outcome', 'rate_limited', 'retry_after', '2 minutes'),
   'accepted', 'the attempt as a string, a wait'),
  ('{}', 'refused', 'nothing at all'),
  (jsonb_build_object('attempt', :untouched, 'outcome', 'success', 'result', 1), 'refused', 'no token'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:good), 'outcome', 'success', 'result', 1), 'refused', 'another token'),
  (jsonb_build_object('attempt', 0, 'token', 'x', 'outcome', 'success', 'result', 1), 'refused', 'no such attempt'),
  (jsonb_build_object('attempt', 1e30, 'token', 'x', 'outcome', 'success'), 'refused', 'an attempt of 30 digits'),
  (jsonb_build_object('attempt', -1, 'token', 'x', 'outcome', 'success'), 'refused', 'a negative attempt'),
  (jsonb_build_object('attempt', 'first', 'token', 'x', 'outcome', 'success'), 'refused', 'an attempt that is no number'),
  (jsonb_build_object('attempt', array[:untouched], 'token', 'x', 'outcome', 'success'), 'refused', 'an array for an attempt'),
  (jsonb_build_object('attempt', null, 'token', null, 'outcome', null), 'refused', 'null for everything'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:untouched)), 'refused', 'no outcome'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:untouched), 'outcome', 'done'), 'refused', 'another outcome'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:untouched), 'outcome', 'success', 'result', 1, 'confidence', 2), 'refused', 'a confidence of 2'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:untouched), 'outcome', 'success', 'result', 1, 'confidence', 'high'), 'refused', 'a confidence in words'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:untouched), 'outcome', 'failure', 'input_tokens', -1), 'refused', 'negative tokens'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:untouched), 'outcome', 'failure', 'input_tokens', 1e300), 'refused', 'tokens of 300 digits'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:untouched), 'outcome', 'failure', 'llm_cost', 'NaN'), 'refused', 'a cost of NaN'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:untouched), 'outcome', 'failure', 'usage_complete', 'perhaps'), 'refused', 'half a truth'),
  (jsonb_build_object('attempt', :untouched, 'token', token(:untouched), 'outcome', 'rate_limited', 'retry_after', 'soon'), 'refused', 'a wait in words'),
  (jsonb_build_object('attempt', ' ' || :untouched, 'token', token(:untouched), 'outcome', 'success', 'result', 1), 'refused', 'an attempt behind a blank');
create temporary table answers as
select a.* from record_callbacks((select json_agg(s.callback order by s.number) from sent s)) a;

select results_eq('select "position", answer from answers', 'select s.number, s.answer from sent s order by s.number',
                  'every report is answered, in order');
select results_eq('select "position" from answers where (message is null) <> (answer <> ''refused'')', 'select 0 where false',
                  'those that are refused say why, the others have nothing to say');
select results_eq('select attempt_id from answers where "position" <= 9',
                  format('select unnest(array[%s, %s, %s, %s, %s, %s, null, %s, %s]::bigint[])', :last, :good, :good, :unsure, :unsure, :unsure, :untouched, :untouched),
                  'each with its attempt');
select is(states(:good), 'completed succeeded', 'the success counts');
select attempt_is(:good, '{"input_tokens": 10, "output_tokens": 2, "cached_tokens": 1, "llm_cost": 0.25, "usage_complete": true, "run_id": 5, "trace_id": "tr"}',
                  'with all that it said');
select is(array[r.result::text, r.confidence::text], array['{"a": 1}', '0.5'], 'and its result') from results r where r.attempt_id = :good;
select is(states(:last), 'enqueued failed', 'the failure counts');
select attempt_is(:last, '{"error": "broken"}', 'with its message');
select is(t.retry_at, _now() + interval '2 min', 'the wait counts') from tasks t where t.id = task_of(:unsure);
select is(states(:untouched), 'processing running', 'of what was refused nothing counts');
select attempt_is(:untouched, '{"input_tokens": null, "reported_at": null, "run_ended_at": null}', 'nothing at all');
select ledger_is_exact();

-- Everything again: the same state.
select digest() as once \gset
create temporary table again as
select a.* from record_callbacks((select json_agg(s.callback order by s.number) from sent s)) a;
select results_eq('select answer from again order by "position" limit 6', 'select ''duplicate'' from generate_series(1, 6)', 'the whole batch again: duplicates');
select is(digest(), :'once', 'and nothing changed');

-- --- text from outside -----------------------------------------------------------------------------------

select start() as dirty \gset
select is(a.answer, 'accepted', 'U+0000 and half a surrogate do not stop a batch')
from record_callbacks(format('[{"attempt": %s, "token": "%s", "outcome": "success", "result": {"t": "a\u0000b\ud800"}, "error_class": "%s"}]',
                             :dirty, token(:dirty), repeat('x', 5000))::json) a;
select is(r.result, U&'{"t": "a\FFFDb\FFFD"}'::jsonb, 'they are replaced') from results r where r.attempt_id = :dirty;
select start() as wordy \gset
select is(a.answer, 'accepted', 'nor do a long class, a long message and a long trace')
from record_callbacks(json_build_array(json_build_object('attempt', :wordy, 'token', token(:wordy), 'outcome', 'failure', 'error_class', repeat('x', 5000),
                                                         'error', repeat('y', 50000), 'trace_id', repeat('z', 5000)))) a;

-- --- batches that are none -----------------------------------------------------------------------------------

select refused(format('select record_callbacks(%s)', v.callbacks), 'LQ422', v.callbacks)
from (values ('null'), ('''null'''), ('''1'''), ('''{}'''), ('''{"attempt": 1}'''), ('''[1]'''), ('''[null]'''), ('''[{}, []]''')) v(callbacks);
select is_empty('select * from record_callbacks(''[]'')', 'no reports, no answers');
select refused('select record_callbacks((select json_agg(json_build_object()) from generate_series(1, 1001)))', 'LQ400', '1,001 reports');
select is(count(*), 1000::bigint, '1,000 reports are not too many')
from record_callbacks((select json_agg(json_build_object()) from generate_series(1, 1000))) a where a.answer = 'refused';

-- --- who may call it -------------------------------------------------------------------------------------------

select start() as mine \gset
set session authorization test_web;
select is(a.answer, 'accepted', 'the web process hands on what it got')
from record_callbacks(json_build_array(json_build_object('attempt', :mine, 'token', token(:mine), 'outcome', 'failure'))) a;
set session authorization test_owner;
select not_for(login, 'select * from lakequeue.record_callbacks(''[]'')')
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
