-- Rule 11: a 429 cools the endpoint for everyone at once; the agent keeps its lease; a shorter wait never shortens a
-- longer one.
begin;
\ir scenarios.sql
select plan(34);

select start() as a \gset
select task_of(:a) as task \gset
select agent_of(:task) as agent \gset
-- Another agent of the same endpoint, and one of another endpoint, each with something to do.
select configure_agent('neighbour', model_endpoint => :'agent') \gset
select enqueue_task('neighbour', '/n.pdf') as neighbour \gset
select new_task() as stranger \gset

select states(:a) as before \gset
select is(report_rate_limit(:a, token(:a)), _now() + interval '10 s', 'without a word from the endpoint: 10 seconds');
select task_is(:task, jsonb_build_object('status', 'processing', 'locked_by', 'w1', 'lease_expires_at', _now() + interval '5 min', 'rate_limited', 0),
               'the task runs on in its lease, and nothing is counted');
select attempt_is(:a, '{"status": "running", "reported_at": null}', 'the attempt has not ended');
select is_empty('select * from dequeue_tasks(''w2'', 10, array[''neighbour''])', 'nobody gets a task of this endpoint');
select is(claim(:stranger) > 0, true, 'other endpoints are not concerned');
select row_is(to_jsonb(e), jsonb_build_object('task_id', :task, 'actor', 'test_owner', 'detail', jsonb_build_object(
  'endpoint_id', e.detail -> 'endpoint_id', 'cooldown_until', _now() + interval '10 s')), 'an event says so')
from (select null) one left join task_events e on e.kind = 'rate_limited' and e.attempt_id = :a;

-- longer and shorter
select is(report_rate_limit(:a, token(:a), '3 s'), _now() + interval '10 s', 'a shorter wait does not shorten it');
select is(report_rate_limit(:a, token(:a), '0'), _now() + interval '10 s', 'nor does none');
select is(report_rate_limit(:a, token(:a), '20 s'), _now() + interval '20 s', 'a longer one counts');
select advance('15 s') \gset
select is(report_rate_limit(:a, token(:a)), _now() + interval '10 s', 'from the time it is said');
select advance('10 s' - interval '1 us') \gset
select is_empty('select * from dequeue_tasks(''w2'', 10, array[''neighbour''])', 'the wait lasts to its end');
select advance('1 us') \gset
select is(claim(:neighbour) > 0, true, 'and no longer');

select is(report_rate_limit(:a, token(:a), '1 hour'), _now() + interval '1 hour', 'an hour');
select advance('1 day') \gset
select is(report_rate_limit(:a, token(:a), w), _now() + interval '1 hour', format('%s is cut to an hour', w))
from unnest(array['1 hour 1 us', '1000 years', '170000000 years']::interval[]) w;

-- a limit is a fact about the endpoint, whoever met it
select attempt_in('expired, another completed') as late \gset
select is(report_rate_limit(:late, token(:late)), _now() + interval '10 s', 'a closed attempt may report one too');
select is(states(:late), 'completed expired', 'which changes neither it nor its task');

-- refused
select refused(format('select report_rate_limit(%s, %L)', v.attempt, token(:a)), 'LQ404', 'attempt ' || v.attempt)
from (values ('null'), ('0'), ('-1'), ('9223372036854775807')) v(attempt);
select refused(format('select report_rate_limit(%s, %L)', :a, v.token), 'LQ401', coalesce(v.token, 'no token'))
from (values (null), (''), (token(:late))) v(token);
select refused(format('select report_rate_limit(%s, %L, %L)', :a, token(:a), v.wait), 'LQ400', v.wait)
from (values ('-1 us'), ('-1 year')) v(wait);

-- who may call it
set session authorization test_agent;
select is(report_rate_limit(:a, token(:a), '2 hours'), (select c.stands_at + interval '1 hour' from test.clock c), 'an agent reports it');
set session authorization test_owner;
select not_for(login, format('select lakequeue.report_rate_limit(%s, %L)', :a, token(:a)))
from unnest(array['test_app', 'test_web', 'test_worker', 'test_operator', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
