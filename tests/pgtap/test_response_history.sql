-- Percentiles by day and over all are merged from the histogram, folded or not, and right within 2.5 %.
begin;
\ir scenarios.sql
select plan(10);

select new_agent() as agent \gset
select is_empty(format('select * from response_history(agents => array[%L])', :'agent'), 'nothing yet: no rows');
-- 1 January: 1 to 20 s; 2 January: 100 s
create function pg_temp.complete(agent text, seconds integer, customer text) returns void language plpgsql as $$
declare
  v_attempt bigint;
begin
  perform lakequeue.enqueue_task(agent, '/a', customer => customer);
  select d.attempt_id into v_attempt from lakequeue.dequeue_tasks('w', 1, array[agent]) d;
  perform test.advance(make_interval(secs => seconds));
  perform scenario.report(v_attempt, 'success', '1');
end $$;
select pg_temp.complete(:'agent', n, 'acme') from generate_series(1, 20) n;
select fold_rollups() \gset
select set_clock('2026-01-02 12:00+00') \gset
select pg_temp.complete(:'agent', 100, 'globex') \gset
create function pg_temp.near(measured interval, seconds numeric) returns boolean language sql as $$
  select extract(epoch from measured) between 0.975 * seconds and 1.025 * seconds $$;
select results_eq(format('select h.day, h.tasks from response_history(agents => array[%L]) h', :'agent'),
  $$values ('2026-01-01'::date, 20::bigint), ('2026-01-02', 1), (null, 21)$$, 'a row per day, and one for all');
select ok(pg_temp.near(h.p50, 10) and pg_temp.near(h.p95, 19), format('a day: %s and %s', h.p50, h.p95))
from response_history(agents => array[:'agent']) h where h.day = '2026-01-01';
select ok(pg_temp.near(h.p50, 11) and pg_temp.near(h.p95, 20), format('all of them are merged, not averaged: %s and %s', h.p50, h.p95))
from response_history(agents => array[:'agent']) h where h.day is null;
select is((select m.median_response from queue_metrics(agents => array[:'agent'], statuses => '{completed}') m),
  (select h.p50 from response_history(agents => array[:'agent']) h where h.day is null), 'the same median as queue_metrics');
select is((select sum(h.tasks) from response_history('2026-01-02', '2026-01-02', array[:'agent']) h where h.day is null), 1::numeric, 'a range');
select is((select sum(h.tasks) from response_history(agents => array[:'agent'], customers => '{acme}') h where h.day is null), 20::numeric, 'a customer');
select refused('select response_history(agents => array[''rh nobody''])', 'LQ404', 'an unknown agent');
set session authorization test_reader;
select lives_ok('select lakequeue.response_history()', 'a reader may ask');
set session authorization test_owner;
select not_for('test_worker', 'select lakequeue.response_history()');

select * from finish();
rollback;
