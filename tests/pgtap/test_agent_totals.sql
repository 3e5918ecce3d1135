-- agent_totals: counters that never fall, the same before and after folding.
begin;
\ir scenarios.sql
select plan(10);

create function pg_temp.totals(agent text) returns text language sql as $$
  select (t.completed, t.failed, t.cancelled, t.input_tokens, t.output_tokens, t.cached_tokens, t.llm_cost)::text
  from lakequeue.agent_totals(array[agent]) t $$;
select new_agent(1) as agent \gset
select is(pg_temp.totals(:'agent'), '(0,0,0,0,0,0,0)', 'an agent that has done nothing');
select enqueue_task(:'agent', '/' || n) from generate_series(1, 4) n;
select report(d.attempt_id, 'success', '1', input_tokens => 10, output_tokens => 2, cached_tokens => 1, llm_cost => 0.25)
from dequeue_tasks('w', 2, array[:'agent']) d;
select d.attempt_id as a, d.task_id as task from dequeue_tasks('w', 1, array[:'agent']) d \gset
select report(:a, 'permanent_failure', input_tokens => 5) \gset
select cancel_tasks(array(select t.id from tasks t join agents g on g.id = t.agent_id where g.name = :'agent' and t.status = 'enqueued'));
select is(pg_temp.totals(:'agent'), '(2,1,1,25,4,2,0.50)', 'what became of four tasks');
select fold_rollups() \gset
select is(pg_temp.totals(:'agent'), '(2,1,1,25,4,2,0.50)', 'folding changes nothing');
select retry_task(:task) \gset
select is(pg_temp.totals(:'agent'), '(2,1,1,25,4,2,0.50)', 'a retry takes nothing away');
select report(d.attempt_id, 'permanent_failure', input_tokens => 5) from dequeue_tasks('w', 1, array[:'agent']) d;
select is(pg_temp.totals(:'agent'), '(2,2,1,30,4,2,0.50)', 'who fails twice has failed twice');
select fold_rollups() \gset
select is(pg_temp.totals(:'agent'), '(2,2,1,30,4,2,0.50)', 'folded onto what was there');
select is(u.done_at, _now(), 'when all was folded is noted') from upkeep u where u.kind = 'fold';
select is((select array_agg(t.agent) from agent_totals() t) @> array[:'agent'], true, 'without names: of all agents');
select refused('select agent_totals(array[''na nobody''])', 'LQ404', 'an unknown agent');
select not_for('test_agent', 'select lakequeue.agent_totals()');

select * from finish();
rollback;
