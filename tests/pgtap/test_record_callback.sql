-- record_callback: who may report, what is refused, and what becomes of each thing that is reported. What a report
-- does to task and attempt, in every situation, is in test__apply_callback.sql.
begin;
\ir scenarios.sql
select plan(86);

select start() as a \gset
select start() as other \gset
select token(:a) as token, token(:other) as other_token \gset

-- --- whose word it is ----------------------------------------------------------------------------

select refused(format('select record_callback(%s, %L, ''success'', ''1'')', attempt, :'token'), 'LQ404', description)
from (values ('null', 'no attempt'), ('0', 'attempt 0'), ('-1', 'a negative attempt'),
             ('9223372036854775807', 'the largest attempt'), ('-9223372036854775808', 'the smallest attempt')) v(attempt, description);
select refused(format('select record_callback(%s, %L, ''success'', ''1'')', :a, token), 'LQ401', description)
from (values (null, 'no token'), ('', 'an empty token'), (:'other_token', 'the token of another attempt'),
             (upper(:'token'), 'the token in capitals'), (:'token' || ' ', 'the token and a blank'),
             (left(:'token', 63), 'the token but its last letter'), (repeat('x', 100000), 'a long token')) v(token, description);
select refused(format('select record_callback(%s, %L, %L)', :a, :'token', outcome), 'LQ400', description)
from (values (null, 'no outcome'), ('', 'an empty outcome'), ('SUCCESS', 'an outcome in capitals'),
             ('succeeded', 'a status for an outcome'), ('success ', 'an outcome and a blank')) v(outcome, description);
select is(states(:a), 'processing running', 'after all that the attempt runs on');

savepoint before_secret;
update installation set secret = sha256('another');
select refused(format('select record_callback(%s, %L, ''success'', ''1'')', :a, :'token'), 'LQ401',
               'a token of before the secret was changed');
rollback to before_secret;

-- --- values out of range ---------------------------------------------------------------------------

select refused(format('select record_callback(%s, %L, ''success'', %s)', :a, :'token', arguments), code, arguments)
from (values
  ($$ '1', confidence => -0.01 $$, 'LQ400'), ($$ '1', confidence => 1.01 $$, 'LQ400'),
  ($$ '1', confidence => 'NaN' $$, 'LQ400'), ($$ '1', confidence => 'Infinity' $$, 'LQ400'),
  ($$ '1', confidence => '-Infinity' $$, 'LQ400'),
  ($$ '1', input_tokens => -1 $$, 'LQ400'), ($$ '1', output_tokens => -1 $$, 'LQ400'), ($$ '1', cached_tokens => -1 $$, 'LQ400'),
  ($$ '1', input_tokens => 1000000000001 $$, 'LQ400'), ($$ '1', output_tokens => 9223372036854775807 $$, 'LQ400'),
  ($$ '1', cached_tokens => '-9223372036854775808' $$, 'LQ400'),
  ($$ '1', llm_cost => -0.000001 $$, 'LQ400'), ($$ '1', llm_cost => 'NaN' $$, 'LQ400'),
  ($$ '1', llm_cost => 'Infinity' $$, 'LQ400'), ($$ '1', llm_cost => 1e9 $$, 'LQ400'),
  ($$ '1', usage_complete => true $$, 'LQ400'), ($$ '1', usage_complete => true, input_tokens => 1 $$, 'LQ400'),
  ($$ '1', usage_complete => true, output_tokens => 1 $$, 'LQ400'),
  ($$ 'null' $$, 'LQ422'), ($$ '1e200000' $$, 'LQ422')
) v(arguments, code);
select is(states(:a), 'processing running', 'after all that the attempt runs on');
select attempt_is(:a, '{"input_tokens": null, "llm_cost": null, "usage_complete": false, "reported_at": null}',
                  'and nothing of it was recorded');
select is_empty(format('select from results where attempt_id = %s', :a), 'no result either');

-- --- values at the edge ------------------------------------------------------------------------------

select is(report(start(), 'success', '1', confidence => c), 'accepted', 'confidence ' || c) from unnest(array[0, 1]::real[]) c;
select is(record_callback(a, token(a), 'success', '1', confidence => 1e-46), 'accepted', 'one too small to be told from 0') from start() a;
select start() as edge \gset
select is(report(:edge, 'success', '1', input_tokens => 1000000000000, output_tokens => 0, cached_tokens => 1000000000000,
                 llm_cost => 999999999.99, usage_complete => true), 'accepted', 'the largest usage');
select attempt_is(:edge, '{"input_tokens": 1000000000000, "output_tokens": 0, "cached_tokens": 1000000000000,
  "llm_cost": 999999999.99, "usage_complete": true, "usage_source": "callback"}', 'is recorded as it came');
select start() as bare \gset
select is(record_callback(:bare, token(:bare), 'failure', null, null, null, null, null, null, null, null, null, null, null, null),
          'accepted', 'everything but attempt, token and outcome may be null');
select attempt_is(:bare, '{"status": "failed", "input_tokens": null, "usage_complete": false, "usage_source": null, "run_id": null,
  "trace_id": null, "error": null, "error_class": null}', 'and is then not known');

-- --- text from outside (rule 13) -----------------------------------------------------------------------

select start() as dirty \gset
select is(report(:dirty, 'success', '{"text": "a\u0000b \ud83d c \udc00 \ud83d\ude00 \\u0000"}'), 'accepted',
          'a result with U+0000 and half surrogates is not lost');
select is(r.result ->> 'text', U&'a\FFFDb \FFFD c \FFFD \+01F600 ' || E'\\u0000', 'they are replaced, nothing else is')
from results r where r.attempt_id = :dirty;

create function pg_temp.error_of(error json, error_class text)
returns bigint language plpgsql
as $$
declare
  v_attempt bigint := start();
begin
  perform report(v_attempt, 'failure', error => error_of.error, error_class => error_of.error_class);
  return v_attempt;
end $$;
create temporary table errors as
select v.description, v.expected, v.expected_class, pg_temp.error_of(v.error::json, v.error_class) as attempt
from (values
  ('a string', '"no such file"', 'document_missing', 'no such file', 'document_missing'),
  ('an object with a message', '{"message": "no such file", "code": 2}', null, 'no such file', null),
  ('another object', '{"code":2}', null, '{"code": 2}', null),
  ('an array', '[1,2]', null, '[1, 2]', null),
  ('JSON null', 'null', 'boom', null, 'boom'),
  ('blank', '" \n"', ' ', null, null),
  ('U+0000 and half a surrogate', '"a\u0000b\ud800"', null, U&'a\FFFDb\FFFD', null),
  ('very long', '"' || repeat('x', 100000) || '"', repeat('y', 5000), repeat('x', 4000), repeat('y', 200)),
  ('a long class alone', null, repeat('z', 5000), null, repeat('z', 200))
) v(description, error, error_class, expected, expected_class);
select is(array[a.error, a.error_class], array[e.expected, e.expected_class], 'error: ' || e.description)
from errors e left join task_attempts a on a.id = e.attempt order by e.description;
select is(array[t.error, t.status::text], array[coalesce(e.expected, e.expected_class, 'failed'), 'enqueued'],
          'the task shows it: ' || e.description)
from errors e left join tasks t on t.id = task_of(e.attempt) order by e.description;

select start() as traced \gset
select is(report(:traced, 'failure', trace_id => repeat('t', 600), run_id => '-9223372036854775808'), 'accepted', 'a long trace id');
select attempt_is(:traced, jsonb_build_object('trace_id', repeat('t', 500), 'run_id', '-9223372036854775808'::bigint), 'is cut');

-- --- the wait that a rate limit asks for -----------------------------------------------------------------

create function pg_temp.wait_of(retry_after interval)
returns interval language plpgsql
as $$
declare
  v_attempt bigint := start();
begin
  perform report(v_attempt, 'rate_limited', retry_after => retry_after);
  return (select t.retry_at - _now() from tasks t where t.id = task_of(v_attempt) and t.status = 'enqueued');
end $$;
select ok(pg_temp.wait_of(v.asked) between v.least and v.most, format('retry_after %s', v.asked))
from (values (null::interval, interval '5 s', interval '10 s'), ('0', '5 s', '10 s'), ('-1 day', '5 s', '10 s'), ('2 min', '2 min', '2 min'),
             ('1 hour', '1 hour', '1 hour'), ('300 years', '1 hour', '1 hour'), ('170000000 years', '1 hour', '1 hour')) v(asked, least, most);

-- --- who may call it ---------------------------------------------------------------------------------

select start() as mine \gset
set session authorization test_agent;
select is(report(:mine, 'success', '1'), 'accepted', 'an agent reports');
set session authorization test_web;
select is(report(:mine, 'success', '1'), 'duplicate', 'so does the web process, for the webhook');
set session authorization test_owner;
select not_for(login, format('select lakequeue.record_callback(%s, %L, ''success'', ''1'')', :a, :'token'))
from unnest(array['test_app', 'test_worker', 'test_operator', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
