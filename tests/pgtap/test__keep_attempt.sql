-- What a report has changed of an attempt is written at once, as one new version of its row; the end of its run ends its
-- model calls, also where it began to reserve them since it was read.
begin;
\ir scenarios.sql
select plan(6);

select start() as a \gset
create temporary table before as select to_jsonb(t) as attempt from task_attempts t where t.id = :a;
create temporary table changed as
select jsonb_build_object(
  'status', 'failed', 'ended_at', _now(), 'reported_at', _now(), 'run_ended_at', _now(), 'presumed_dead_at', _now(),
  'error_class', 'x', 'error', 'y', 'run_id', 7, 'trace_id', 'tr-1', 'input_tokens', 1, 'output_tokens', 2, 'cached_tokens', 3,
  'llm_cost', 0.5, 'usage_complete', true, 'usage_source', 'callback', 'raised', '{1,2,3,4,5}'::numeric[]) as columns;

update task_attempts set reserves_calls = true where id = :a;  -- since it was read
insert into model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at)
select t.id, gen_random_uuid(), t.endpoint_id, t.agent_id, 5, 1, 1, _now(), _now(), _now() from task_attempts t where t.id = :a;
select _keep_attempt(jsonb_populate_record(null::task_attempts, b.attempt)) from before b;
select is((select ended_at from model_calls where attempt_id = :a), null, 'while the run lives so do its calls');
select _keep_attempt(jsonb_populate_record(null::task_attempts, b.attempt || c.columns)) from before b, changed c;
select is(to_jsonb(t), to_jsonb(jsonb_populate_record(null::task_attempts, b.attempt || c.columns || '{"reserves_calls": true}')),
          'all that a report may change is written; what others change is left')
from task_attempts t, before b, changed c where t.id = :a;
select is((select ended_at from model_calls where attempt_id = :a), _now(), 'its run has ended, and its calls with it');

-- A success with result and usage costs one version of the row; each would stand in four indexes.
select start() as b \gset
create function pg_temp.updates() returns bigint language sql as $$
  select pg_stat_get_xact_tuples_updated('lakequeue.task_attempts'::regclass) $$;
create temporary table counted as select pg_temp.updates() as n;
select is(report(:b, 'success', '{"total": 1}', input_tokens => 9, output_tokens => 1, llm_cost => 0.1, usage_complete => true,
                 run_id => 1, trace_id => 'tr'), 'accepted', '(reported)');
select is(pg_temp.updates() - n, 1::bigint, 'a whole report writes its attempt once') from counted;

select not_for('test_agent', 'select lakequeue._keep_attempt(null)');
select * from finish();
rollback;
