-- store_result: who may store, what is refused, what is stored. What a result does to task and attempt in every
-- situation is in test__store_result.sql.
begin;
\ir scenarios.sql
select plan(45);

select start() as a \gset
select token(:a) as token, token(start()) as other_token \gset

select refused(format('select store_result(%s, %L, ''1'')', attempt, :'token'), 'LQ404', 'attempt ' || attempt)
from unnest(array['null', '0', '-1', '9223372036854775807']) attempt;
select refused(format('select store_result(%s, %L, ''1'')', :a, token), 'LQ401', description)
from (values (null, 'no token'), ('', 'an empty token'), (:'other_token', 'another attempt''s token')) v(token, description);
select refused(format('select store_result(%s, %L, %s)', :a, :'token', arguments), code, arguments)
from (values
  ('null', 'LQ422'), ('''null''', 'LQ422'), ($$ ' null ' $$, 'LQ422'), ('''1e200000''', 'LQ422'), ('''-1e200000''', 'LQ422'),
  ('''{"a": [1, {"b": 9e999999}]}''', 'LQ422'),
  ('''1'', -0.01', 'LQ400'), ('''1'', 1.01', 'LQ400'), ('''1'', ''NaN''', 'LQ400'), ('''1'', ''Infinity''', 'LQ400'),
  ('''1'', ''-Infinity''', 'LQ400')) v(arguments, code);
select is(states(:a), 'processing running', 'after all that the attempt runs on');
select is_empty(format('select from results where attempt_id = %s', :a), 'and has no result');

-- whatever else JSON can be is a result, and comes back as it was but for what cannot be stored
create function pg_temp.stored(result json, confidence real default null)
returns jsonb language plpgsql
as $$
declare
  v_attempt bigint := start();
begin
  if store(v_attempt, stored.result, stored.confidence) <> 'accepted' then
    return null;
  end if;
  return (select jsonb_build_array(r.result, r.confidence) from results r where r.attempt_id = v_attempt);
end $$;
select is(pg_temp.stored(v.result::json) -> 0, v.expected::jsonb, 'a result: ' || v.description)
from (values
  ('false', '0 is a result', 'false'), ('0', 'so is 0', '0'), ('""', 'an empty string', '""'), ('{}', 'an empty object', '{}'), ('[null]', 'an array of null', '[null]'),
  ('{"a":"x\u0000y"}', 'U+0000', '{"a": "x\ufffdy"}'), ('{"a\u0000":1}', 'U+0000 in a key', '{"a\ufffd": 1}'),
  ('["\ud83d", "\ude00", "\ud83d\ude00"]', 'half surrogates', '["\ufffd", "\ufffd", "\ud83d\ude00"]'),
  ('"\\u0000"', 'text that only looks like U+0000', '"\\u0000"'),
  ('123456789012345678901234567890.5', 'a number of many digits', '123456789012345678901234567890.5')) v(result, description, expected);
select is(pg_temp.stored('1', c) -> 1, to_jsonb(c), format('confidence %s', c)) from unnest(array[0, 0.125, 1]::real[]) c;
select is(pg_temp.stored('1') -> 1, 'null', 'no confidence');
select is(octet_length(pg_temp.stored(to_json(repeat('page ', 1000000))) ->> 0), 5000000, 'five megabytes of text');

-- what it does to the books
select start() as mine \gset
select task_of(:mine) as task \gset
select advance('30 s') \gset
set session authorization test_agent;
select is(store_result(:mine, token(:mine), '{"total": 7}', 0.5), 'accepted', 'an agent stores its result');
set session authorization test_owner;
select task_is(:task, jsonb_build_object('status', 'completed', 'finished_at', _now(), 'locked_by', null, 'retry_at', null,
                                         'lease_expires_at', null, 'error', null), 'the task is completed in the same transaction');
select attempt_is(:mine, jsonb_build_object('status', 'succeeded', 'ended_at', _now(), 'reported_at', null, 'run_ended_at', null),
                  'the attempt has not reported yet');
select ledger_is_exact();
select not_for(login, format('select lakequeue.store_result(%s, %L, ''1'')', :a, :'token'))
from unnest(array['test_app', 'test_web', 'test_worker', 'test_operator', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
