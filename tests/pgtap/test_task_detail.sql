-- All about one task in one piece of JSON, and none of its secrets.
begin;
\ir scenarios.sql
select plan(27);

-- a task that failed once, then completed
create temporary table first as select start() as attempt;
select record_runs(array[attempt], array[4711]) from first;
select report(attempt, 'failure', input_tokens => 100, output_tokens => 10, usage_complete => true, error_class => 'timeout', error => '"too slow"') from first;
create temporary table second as select claim_again(task_of(attempt)) as attempt from first;
select report(attempt, 'success', '{"total": 12.50, "lines": [1, 2]}', 0.5, 200, 20, 5, 0.25, true, trace_id => 'tr-1') from second;
create temporary table detail as select task_of(attempt) as task, task_detail(task_of(attempt)) as d from first;

select results_eq(
  $$select d #>> '{task,id}', d #>> '{task,agent}', d #>> '{task,status}', d #>> '{task,customer}', d #>> '{task,document_path}',
           d #>> '{task,attempt_count}', d #>> '{task,failures}', (d #>> '{task,finished_at}')::timestamptz from detail$$,
  $$select t.id::text, agent_of(t.id), 'completed', 'acme', '/a.pdf', '2', '1', t.finished_at from tasks t where t.id = (select task from detail)$$,
  'the task''s row is there, with its agent by name');
select results_eq(
  $$select a ->> 'number', a ->> 'status', a ->> 'run_id', a ->> 'error_class', a ->> 'error', a ->> 'input_tokens', a ->> 'trace_id', a ->> 'worker'
    from detail cross join lateral jsonb_array_elements(d -> 'attempts') with ordinality x(a, n) order by n$$,
  $$values ('1', 'failed', '4711', 'timeout', 'too slow', '100', null, 'w1'), ('2', 'succeeded', null, null, null, '200', 'tr-1', 'w2')$$,
  'so are its attempts, in order');
select is((select d -> 'result' from detail), '{"total": 12.50, "lines": [1, 2]}', 'and its result');
select is((select d -> 'confidence' from detail), '0.5', 'with its confidence');
select is((select (d -> 'usage') - 'usage_complete' from detail),
  '{"attempts": 2, "input_tokens": 300, "output_tokens": 30, "cached_tokens": 5, "llm_cost": 0.25}', 'usage is of all attempts');
select is((select array_agg(l ->> 'kind' order by n) from detail cross join lateral jsonb_array_elements(d -> 'timeline') with ordinality x(l, n)) @> array['claimed', 'attempt_failed', 'attempt_succeeded', 'completed', 'enqueued'],
  true, 'the timeline tells what happened');
select is((select bool_and((l ->> 'at')::timestamptz >= before) from (
    select l, lag((l ->> 'at')::timestamptz, 1, '-infinity') over (order by n) as before
    from detail cross join lateral jsonb_array_elements(d -> 'timeline') with ordinality x(l, n)) t), true, 'in order');

-- what can be done with it, and the last sign of life
select is((select d -> 'actions' from detail), '["reprocess"]', 'a completed task can be reprocessed');
select start() as running \gset
select is((task_detail(task_of(:running)) #>> '{attempts,0,heartbeat_at}')::timestamptz, _now(), 'a claim is a sign of life');
select advance('3 min') \gset
select answer from extend_leases(array[:running], array[token(:running)]) \gset
select advance('50 s') \gset
select is((task_detail(task_of(:running)) #>> '{attempts,0,heartbeat_at}')::timestamptz, _now() - interval '50 s', 'so is a heartbeat');
select configure_agent(agent_of(task_of(:running)), lease_duration => '1 min') \gset
select is((task_detail(task_of(:running)) #>> '{attempts,0,heartbeat_at}')::timestamptz, _now(), 'a shorter lease puts it not into the future');
select configure_agent(agent_of(task_of(:running)), lease_duration => '1 hour') \gset
select is((task_detail(task_of(:running)) #>> '{attempts,0,heartbeat_at}')::timestamptz, _now() - interval '230 s', 'nor a longer one before the claim');
select is(task_detail(task_of(:running)) -> 'actions', '["cancel", "priority"]', 'a running task can be cancelled, or get another priority');
select cancel_task(task_of(:running), actor => 'ops') \gset
select is(task_detail(task_of(:running)) -> 'actions', '["priority"]', 'but not be cancelled twice');
select is((select (d -> 'attempts' -> 1) ? 'heartbeat_at' from detail), false, 'an ended attempt has no sign of life');

-- secrets
select is((select count(*) from detail, task_attempts a where a.task_id = detail.task
           and (strpos(d::text, a.run_key::text) > 0 or strpos(d::text, _callback_token(a.id, a.run_key)) > 0)), 0::bigint,
  'neither run keys nor callback tokens are in it');
select is((select count(*) from detail, installation where strpos(d::text, encode(secret, 'hex')) > 0), 0::bigint, 'nor the installation''s secret');

-- little is known
create temporary table unclaimed as select new_task() as task;
create temporary table plain as select task_detail(task) as d from unclaimed;
select is((select array[d -> 'attempts', d -> 'result', d -> 'confidence', d -> 'usage', d #> '{task,payload}'] from plain),
  array['[]', 'null', 'null', 'null', 'null']::jsonb[], 'what there is not is null, or an empty list of attempts');
select is((select d #>> '{timeline,0,kind}' from plain), 'enqueued', 'that it was enqueued is known');

-- a result that came too late is not the task's
create temporary table late as select attempt_in('expired, failed, result kept') as attempt;
select is((select task_detail(task_of(attempt)) -> 'result' from late), 'null', 'a result that came too late is not the task''s');

select refused('select task_detail(-1)', 'LQ404', 'an unknown task is refused');
select refused('select task_detail(null)', 'LQ404', 'so is null');

grant select on detail to public;
set session authorization test_reader;
select is(lakequeue.task_detail(task) -> 'confidence', '0.5', 'a reader may look') from detail;
set session authorization test_web;
select is(lakequeue.task_detail(task) -> 'confidence', '0.5', 'the web process may') from detail;
set session authorization test_owner;
select not_for('test_app', 'select lakequeue.task_detail(1)');
select not_for('test_agent', 'select lakequeue.task_detail(1)');
select not_for('test_worker', 'select lakequeue.task_detail(1)');

select * from finish();
rollback;
