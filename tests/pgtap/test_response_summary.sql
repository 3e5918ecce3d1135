-- The response time splits into time in attempts and the rest, over the newest completed tasks.
begin;
\ir scenarios.sql
select plan(9);

select new_agent() as agent \gset
select results_eq(format('select * from response_summary(agents => array[%L])', :'agent'),
  'values (0::bigint, false, null::interval, null::interval, null::interval, null::interval)', 'nothing yet');

-- waits 1 minute, runs 10 s in vain, waits, runs 20 s
select enqueue_task(:'agent', '/1') as task \gset
select advance('1 minute') \gset
select claim(:task) as a \gset
select advance('10 s') \gset
select report(:a, 'failure', error => '"busy"') \gset
select set_clock(retry_at) from tasks where id = :task \gset
select sweep_leases() \gset
select claim(:task) as b \gset
select advance('20 s') \gset
select report(:b, 'success', '1') \gset
select results_eq(format('select s.tasks, s.more, s.running_p50, s.waiting_p50 from response_summary(agents => array[%L]) s', :'agent'),
  format($$select 1::bigint, false, interval '30 s', finished_at - created_at - interval '30 s' from tasks where id = %s$$, :task),
  'running is the time in all attempts, waiting the rest');

-- waits 2 s, runs 10 s; the older one is out of a sample of one
select enqueue_task(:'agent', '/2') as task \gset
select advance('2 s') \gset
select claim(:task) as a \gset
select advance('10 s') \gset
select report(:a, 'success', '1') \gset
select results_eq(format('select * from response_summary(agents => array[%L], sample => 1)', :'agent'),
  $$values (1::bigint, true, interval '2 s', interval '2 s', interval '10 s', interval '10 s')$$, 'the newest, and that there are more');
select is((select s.running_p50 from response_summary(agents => array[:'agent']) s), interval '20 s', 'the median of two is in the middle');
select is((select s.running_p95 from response_summary(agents => array[:'agent']) s), interval '29 s', 'and 95 % of the way');
select is((select s.tasks from response_summary(agents => array[:'agent'], statuses => '{failed}') s), 0::bigint, 'failed ones have no response time');
select refused('select response_summary(sample => 0)', 'LQ400', 'no sample');
set session authorization test_web;
select lives_ok('select lakequeue.response_summary()', 'the web process may ask');
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.response_summary()');

select * from finish();
rollback;
