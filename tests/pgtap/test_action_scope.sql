-- What an action can concern under a filter: the tasks that queue_metrics counts, each status with whether it is one of the action's.
begin;
\ir scenarios.sql
select plan(11);

select new_agent() as agent \gset
select count(enqueue_task(:'agent', '/a', customer => 'acme')) from generate_series(1, 3) \gset
select report(start(), 'success', '1') \gset
select report(start(1), 'permanent_failure') \gset
select results_eq('select * from action_scope(''cancel'')',
  $$values ('enqueued', 3::bigint, true), ('processing', 0, true), ('completed', 1, false), ('failed', 1, false), ('cancelled', 0, false)$$, 'cancel');
select results_eq('select s.status from action_scope(''retry'') s where s.concerned', $$values ('failed'), ('cancelled')$$, 'retry');
select results_eq('select s.status from action_scope(''reprocess'') s where s.concerned', $$values ('completed')$$, 'reprocess');
select results_eq('select s.status from action_scope(''priority'') s where s.concerned', $$values ('enqueued'), ('processing')$$, 'priority');
select results_eq(format('select * from action_scope(''retry'', ''2026-01-01'', ''2026-01-01'', ''{failed,enqueued}'', array[%L], ''{acme}'')', :'agent'),
  $$values ('enqueued', 3::bigint, false), ('failed', 0, true)$$, 'under a filter: the statuses asked for, with its tasks');
select refused('select action_scope(''delete'')', 'LQ400', 'an unknown action');
select refused('select action_scope(''retry'', statuses => ''{done}'')', 'LQ400', 'an unknown status');
select refused('select action_scope(''retry'', agents => ''{nobody at all}'')', 'LQ404', 'an unknown agent');
set session authorization test_web;
select is((select count(*) from lakequeue.action_scope('retry')), 5::bigint, 'the web process may ask');
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.action_scope(''retry'')');
select not_for('test_worker', 'select lakequeue.action_scope(''retry'')');

select * from finish();
rollback;
