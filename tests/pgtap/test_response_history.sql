-- Percentiles by the hour, by day and over all are merged from histograms, folded or not, and right within 2.5 %.
begin;
\ir scenarios.sql
select plan(21);

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
select results_eq(format('select h.day, h.tasks from response_history(''2025-01-01'', agents => array[%L]) h', :'agent'),
  $$values ('2026-01-01'::date, 20::bigint), ('2026-01-02', 1), (null, 21)$$, 'a row per day, and one for all');
select ok(pg_temp.near(h.p50, 10) and pg_temp.near(h.p95, 19), format('a day: %s and %s', h.p50, h.p95))
from response_history('2025-01-01', agents => array[:'agent']) h where h.day = '2026-01-01';
select ok(pg_temp.near(h.p50, 11) and pg_temp.near(h.p95, 20), format('all of them are merged, not averaged: %s and %s', h.p50, h.p95))
from response_history(agents => array[:'agent']) h where h.day is null;
select is((select m.median_response from queue_metrics(agents => array[:'agent'], statuses => '{completed}') m),
  (select h.p50 from response_history(agents => array[:'agent']) h where h.day is null), 'the same median as queue_metrics');
select is((select sum(h.tasks) from response_history('2026-01-02', '2026-01-02', array[:'agent']) h where h.day is null), 1::numeric, 'a range');
select is((select sum(h.tasks) from response_history(agents => array[:'agent'], customers => '{acme}') h where h.day is null), 20::numeric, 'a customer');
create temporary table told as select h.* from response_history(agents => array[:'agent']) h;
select count(record_usage(a.id, 5, 5)) from task_attempts a join tasks t on t.id = a.task_id where t.agent_id = (_agent(:'agent')).id \gset
select results_eq(format('select * from response_history(agents => array[%L])', :'agent'), 'select * from told',
  'late reports of usage leave their buckets and enter them again');
-- by the hour, in a zone whose hours begin elsewhere
update installation set time_zone = 'Asia/Kolkata';
select new_agent() as half \gset
do $$
begin
  perform set_clock('2026-01-02 18:00+00');
  for n in 1..40 loop
    perform pg_temp.complete((select max(a.name) from agents a), 60 * n, case when n % 2 = 0 then 'acme' else 'globex' end);
    if n = 25 then perform fold_rollups(); end if;
  end loop;
end $$;
create function pg_temp.hours(agent text, customers text[] default null) returns table (at timestamptz, tasks bigint, p50 numeric, p95 numeric) language sql as $$
  select date_trunc('hour', t.finished_at, 'Asia/Kolkata'), count(*),
         extract(epoch from percentile_disc(0.5) within group (order by t.finished_at - t.created_at)),
         extract(epoch from percentile_disc(0.95) within group (order by t.finished_at - t.created_at))
  from lakequeue.tasks t
  where t.agent_id = (lakequeue._agent(hours.agent)).id and t.status = 'completed' and (customers is null or t.customer = any(customers))
  group by 1 $$;
select is_empty(format($$select h.at, h.tasks, b.* from response_history('2026-01-02', '2026-01-04', array[%1$L], %2$L) h
    full join pg_temp.hours(%1$L, %2$L) b on b.at = h.at
    where (h.at is not null or b.at is not null)
      and not coalesce(h.tasks = b.tasks and pg_temp.near(h.p50, b.p50) and pg_temp.near(h.p95, b.p95), false)$$, :'half', customers),
  'of a few days by the hour, half of it folded, of customers ' || coalesce(customers, 'all'))
from unnest(array[null, '{acme}', '{acme,globex}', '{nobody}']) customers;
select is((select h.until - h.at from response_history('2026-01-02', '2026-01-04', array[:'half']) h limit 1), '1 hour'::interval, 'each an hour long');
select cmp_ok((select count(*) from response_history('2026-01-02', '2026-01-04', array[:'half'])), '>', 5::bigint, '(of which there are several)');
select results_eq(format('select h.day, h.tasks, h.p50, h.p95 from response_history(''2026-01-02'', ''2026-01-08'', array[%L]) h where h.day is null', :'half'),
  format('select h.day, h.tasks, h.p50, h.p95 from response_history(''2025-12-20'', ''2026-01-08'', array[%L]) h where h.day is null', :'half'),
  'hours and days add up to the same whole');
select is((select max(h.until - h.at) from response_history('2025-12-20', '2026-01-08', array[:'half']) h), '1 day'::interval, 'more than 7 days are told by the day');
select fold_rollups() \gset
select advance('40 days') \gset
select fold_rollups() \gset
select is_empty('select from hourly_histogram', 'hours are forgotten after 35 days');
select is((select max(h.until - h.at) from response_history('2026-01-02', '2026-01-04', array[:'half']) h), '1 day'::interval, 'then days are told');
select refused('select response_history(agents => array[''rh nobody''])', 'LQ404', 'an unknown agent');
set session authorization test_reader;
select lives_ok('select lakequeue.response_history()', 'a reader may ask');
set session authorization test_owner;
select not_for('test_worker', 'select lakequeue.response_history()');

select * from finish();
rollback;
