-- What finished in the last hour, and how long the queue lasts at that pace.
begin;
\ir scenarios.sql
select plan(8);

select new_agent(1) as agent \gset
select results_eq(format('select * from agent_pace(array[%L])', :'agent'), format('values (%L, 0::bigint, 0::bigint, null::interval)', :'agent'),
  'nothing finished: nobody knows');
select enqueue_task(:'agent', '/' || n) from generate_series(1, 10) n;
select report(d.attempt_id, 'success', '1') from dequeue_tasks('w', 3, array[:'agent']) d;
select report(d.attempt_id, 'permanent_failure') from dequeue_tasks('w', 1, array[:'agent']) d;
select results_eq(format('select * from agent_pace(array[%L])', :'agent'),
  format('values (%L, 3::bigint, 1::bigint, interval ''1.5 hours'')', :'agent'), 'six wait, four an hour');
select pause_agent(:'agent') \gset
select is((select p.drains_in from agent_pace(array[:'agent']) p), null, 'while it is paused the queue does not drain');
select resume_agent(:'agent') \gset
select cancel_tasks(array(select l.task_id from list_tasks(statuses => '{enqueued}', agents => array[:'agent']) l));
select is((select p.drains_in from agent_pace(array[:'agent']) p), interval '0', 'an empty queue is drained');
select advance('61 minutes') \gset
select results_eq(format('select p.completed_last_hour, p.failed_last_hour from agent_pace(array[%L]) p', :'agent'), 'values (0::bigint, 0::bigint)', 'an hour later it is forgotten');
select refused('select agent_pace(array[''ap nobody''])', 'LQ404', 'an unknown agent');
set session authorization test_web;
select lives_ok('select lakequeue.agent_pace()', 'the web process may ask');
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.agent_pace()');

select * from finish();
rollback;
