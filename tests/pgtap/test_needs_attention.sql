-- Each kind of trouble is told when it is there and not before; where all is well nothing is said.
begin;
\ir scenarios.sql
select plan(15);

update workers set stopped_at = '2000-01-01', heartbeat_at = '2000-01-01', started_at = '2000-01-01';
delete from task_events;
select new_agent(1) as agent \gset
create function pg_temp.told(agent text) returns text[] language sql as $$
  select coalesce(array_agg(n.kind), '{}') from lakequeue.needs_attention(array[agent]) n $$;
select is(pg_temp.told(:'agent'), '{}', 'all is well');
select enqueue_task(:'agent', '/' || n) from generate_series(1, 10) n;
select is(pg_temp.told(:'agent'), '{no_worker}', 'work, and nobody to do it');
select row_is(to_jsonb(n), '{"severity": "bad", "agent": null, "amount": 10}', 'ten tasks wait') from needs_attention(array[:'agent']) n;
select worker_heartbeat('w') \gset
select is(pg_temp.told(:'agent'), '{}', 'a worker lives');
select advance('16 minutes') \gset
select worker_heartbeat('w') \gset
select is(pg_temp.told(:'agent'), '{oldest_waiting}', 'the oldest waits too long');
select is((select n.since from needs_attention(array[:'agent']) n), '2026-01-01 12:00+00', 'since it came');
select is((select count(*) from needs_attention(array[:'agent'], '1 hour')), 0::bigint, 'unless an hour is fine');
select report(d.attempt_id, 'success', '1') from dequeue_tasks('w', 8, array[:'agent']) d;
select is(pg_temp.told(:'agent'), '{oldest_waiting}', 'eight completed');
select report(d.attempt_id, 'permanent_failure') from dequeue_tasks('w', 2, array[:'agent']) d;
select is((select array_agg(n.kind || ' ' || n.amount) from needs_attention(array[:'agent']) n), '{"failing 20"}', 'two of ten failed: 20 %');
select pause_agent(:'agent', 'lunch') \gset
select row_is(to_jsonb(n), '{"severity": "warn", "words": "lunch"}', 'a pause, with its reason') from needs_attention(array[:'agent']) n where n.kind = 'paused';
update agents set paused_by = 'breaker' where name = :'agent';
insert into breaker_books (agent_id, failures) select a.id, 10 from agents a where a.name = :'agent';
select _log_event('sweep_error', reason => 'boom') \gset
update workers set heartbeat_at = heartbeat_at - interval '2 minutes', stopped_at = _now() where name = 'w';
select is(pg_temp.told(:'agent'), '{breaker,failing,sweep_errors,worker_lost}', 'the worst first');
select start() as a \gset
select report_rate_limit(:a, token(:a), '10 minutes') \gset
select is(pg_temp.told(agent_of(task_of(:a))) @> '{cooldown}', true, 'an endpoint cools down');
select refused('select needs_attention(array[''na nobody''])', 'LQ404', 'an unknown agent');
set session authorization test_web;
select lives_ok('select lakequeue.needs_attention()', 'the web process may ask');
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.needs_attention()');

select * from finish();
rollback;
