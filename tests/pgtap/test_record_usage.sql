-- record_usage: the worker settles what an attempt used, whatever became of it; better numbers win, a repeat changes
-- nothing. How two reports are weighed is in test__record_usage.sql.
begin;
\ir scenarios.sql
select plan(74);

-- --- the ordinary way: the callback, then the trace -----------------------------------------------------------------

select start() as a \gset
select task_of(:a) as task \gset
select report(:a, 'success', '1', input_tokens => 100, output_tokens => 20, cached_tokens => 5, llm_cost => 0.01, usage_complete => true) \gset
select is(record_usage(:a, 90, 25, llm_cost => 0.009, trace_id => 'tr-1'), 'recorded', 'the trace beats the callback');
select attempt_is(:a, '{"input_tokens": 90, "output_tokens": 25, "cached_tokens": null, "llm_cost": 0.009, "usage_complete": true, "usage_source": "trace", "trace_id": "tr-1"}',
                  'also with smaller numbers, and what it does not tell is not known');
select says_and_changes_nothing(format('select record_usage(%s, 90, 25, llm_cost => 0.009, trace_id => ''tr-1'')', :a), 'recorded', 'a repeat changes nothing');
select says_and_changes_nothing(format('select record_usage(%s, 999, 999, 999, 9, source => ''callback'')', :a), 'kept', 'a callback does not beat a trace');
select says_and_changes_nothing(format('select record_usage(%s, 999, 999, 999, 9, complete => false)', :a), 'kept', 'nor does an incomplete trace');
select says_and_changes_nothing(format('select report(%s, ''success'', input_tokens => 999, output_tokens => 999, usage_complete => true)', :a), 'duplicate',
                                'nor an agent that repeats itself');
select is(record_usage(:a, 90, 25, trace_id => 'tr-2'), 'recorded', 'another trace id');
select attempt_is(:a, '{"trace_id": "tr-1"}', 'the first one stays');

-- A task's cost is the sum over its attempts, as a view: nothing is added twice.
select start() as b \gset
select task_of(:b) as two \gset
select report(:b, 'failure', input_tokens => 10, output_tokens => 1, llm_cost => 0.1) \gset
select claim_again(:two) as c \gset
select report(:c, 'success', '1', input_tokens => 20, output_tokens => 2, llm_cost => 0.2, usage_complete => true) \gset
select count(record_usage(u.attempt, u.input, 3, 1, u.cost)) from (values (:b, 11, 0.11), (:c, 21, 0.21), (:b, 11, 0.11), (:c, 21, 0.21)) u(attempt, input, cost) \gset
select row_is(to_jsonb(v), '{"input_tokens": 32, "output_tokens": 6, "cached_tokens": 2, "llm_cost": 0.32}', 'all attempts of a task cost, each once')
from (select null) one left join task_costs v on v.task_id = :two;

-- --- every situation ----------------------------------------------------------------------------------------------------

create temporary table open as
select s.situation, attempt_in(s.situation) as attempt
from unnest(array['running', 'running, asked to stop', 'result stored', 'confirmed', 'reported failure', 'reported permanent failure', 'reported rate limit',
                  'reported that it stopped', 'run died, waiting', 'expired, enqueued', 'expired, another runs', 'expired, another completed', 'superseded']) s(situation);
create temporary table before as select o.attempt, states(o.attempt) as states from open o;
select is(record_usage(o.attempt, 7, 8, 9, 0.5), 'recorded', o.situation || ': usage is settled') from open o;
select attempt_is(o.attempt, '{"input_tokens": 7, "output_tokens": 8, "cached_tokens": 9, "llm_cost": 0.5, "usage_complete": true, "usage_source": "trace"}', o.situation)
from open o;
select is_empty('select b.attempt from before b where b.states <> states(b.attempt)', 'no status changed');

-- --- defaults and nulls ------------------------------------------------------------------------------------------------

select start() as d \gset
select is(record_usage(:d, 1, 2), 'recorded', 'a trace, complete, without a price');
select attempt_is(:d, '{"input_tokens": 1, "output_tokens": 2, "cached_tokens": null, "llm_cost": null, "usage_complete": true, "usage_source": "trace", "trace_id": null}',
                  'is what it is by default');
select start() as e \gset
select is(record_usage(:e, null, null, null, null, null), 'kept', 'nothing known');
select attempt_is(:e, '{"input_tokens": null, "usage_complete": false, "usage_source": null}', 'is no usage');
select is(record_usage(:e, null, null, null, null, false, 'callback', repeat('t', 600)), 'kept', 'a trace id alone');
select attempt_is(:e, jsonb_build_object('trace_id', repeat('t', 500)), 'is noted, as long as it fits');

-- --- priced here where the trace names no cost --------------------------------------------------------------------

select start() as f \gset
select record_usage(:f, 1000000, 100000, 400000, model => 'ru model') \gset
select attempt_is(:f, '{"llm_cost": null}', 'a model without a price: unknown, not 0');
select set_model_price('ru model', 2, 10, 0.5, _now() - interval '1 hour') \gset
select record_usage(:f, 1000000, 100000, 400000, model => 'ru model') \gset
select attempt_is(:f, '{"llm_cost": 2.4}', 'with one');
select start() as g \gset
select advance('1 min') \gset
select set_model_price('ru model', 200, 1000) \gset
select record_usage(:g, 1000000, 100000, model => 'ru model') \gset
select attempt_is(:g, '{"llm_cost": 3}', 'as it was when the attempt began');
select record_usage(:g, 1000000, 100000, llm_cost => 7, model => 'ru model') \gset
select attempt_is(:g, '{"llm_cost": 7}', 'a cost that is named counts');
select start() as h \gset
select record_usage(:h, null, null, null, complete => false, model => 'ru model') \gset
select attempt_is(:h, '{"llm_cost": null, "usage_source": null}', 'tokens that are not known have no price');

-- --- refused, and for whom ------------------------------------------------------------------------------------------------

select refused(format('select record_usage(%s, 1, 1)', attempt), 'LQ404', 'attempt ' || attempt) from unnest(array['null', '0', '-1', '9223372036854775807']) attempt;
select refused(format('select record_usage(%s, %s)', :e, v.arguments), 'LQ400', v.arguments)
from (values ('-1, 1'), ('1, -1'), ('1, 1, -1'), ('1000000000001, 1'), ('1, 9223372036854775807'), ('1, 1, 0, -0.1'), ('1, 1, 0, ''NaN'''), ('1, 1, 0, ''Infinity'''),
             ('1, 1, 0, 1e9'), ('null, 1'), ('1, null'), ('1, 1, source => null'), ('1, 1, source => ''billing'''), ('1, 1, source => ''''')) v(arguments);
select attempt_is(:e, '{"input_tokens": null, "usage_source": null}', 'what was refused changed nothing');
set session authorization test_worker;
select is(record_usage(:e, 1000000000000, 0, 0, 999999999.99), 'recorded', 'a worker settles, up to the largest numbers');
set session authorization test_owner;
select not_for(login, 'select lakequeue.record_usage(1, 1, 1)')
from unnest(array['test_app', 'test_web', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
