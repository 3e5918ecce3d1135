-- Finished tasks by hour and by day equal a count, in any zone, folded or not, and follow a retry; queue lengths are those sampled.
begin;
\ir scenarios.sql
select plan(18);

delete from queue_samples;
update installation set time_zone = 'Asia/Kolkata';
select new_agent(1) as agent \gset
create function pg_temp.finish(agent text, outcome text, customer text default 'acme') returns bigint language plpgsql as $$
declare
  v_attempt bigint;
begin
  perform lakequeue.enqueue_task(agent, '/a', customer => customer);
  select d.attempt_id into v_attempt from lakequeue.dequeue_tasks('w', 1, array[agent]) d;
  perform scenario.report(v_attempt, outcome, case when outcome = 'success' then '1'::json end);
  return scenario.task_of(v_attempt);
end $$;
do $$
begin
  for n in 0..40 loop
    perform set_clock(timestamptz '2026-01-01 12:00+00' + n * interval '43 minutes');
    perform pg_temp.finish((select max(a.name) from agents a), case when n % 3 = 0 then 'permanent_failure' else 'success' end,
                           case when n % 2 = 0 then 'acme' else 'globex' end);
    if n = 20 then perform fold_rollups(); end if;
  end loop;
end $$;
create function pg_temp.brute(width text, status text) returns table (at timestamptz, n bigint) language sql as $$
  select date_trunc(width, t.finished_at, 'Asia/Kolkata'), count(*)
  from lakequeue.tasks t where t.status::text = brute.status group by 1 order by 1 $$;
select set_eq(format($$select h.at, h.completed from queue_history('2026-01-01', '2026-01-02', agents => array[%L]) h where h.completed > 0$$, :'agent'),
  $$select * from pg_temp.brute('hour', 'completed')$$, 'completed by the hour');
select set_eq(format($$select h.at, h.failed from queue_history('2026-01-01', '2026-01-02', agents => array[%L]) h where h.failed > 0$$, :'agent'),
  $$select * from pg_temp.brute('hour', 'failed')$$, 'failed by the hour');
select set_eq(format($$select h.at, h.completed from queue_history('2025-12-01', agents => array[%L]) h where h.completed > 0$$, :'agent'),
  $$select * from pg_temp.brute('day', 'completed')$$, 'completed by the day');
select is((select sum(h.completed) from queue_history('2026-01-01', '2026-01-02', agents => array[:'agent']) h),
  (select sum(m.tasks) from queue_metrics('2026-01-01', '2026-01-02', '{completed}', array[:'agent']) m), 'the sum is what the tile says');
select is((select sum(h.completed) from queue_history('2026-01-01', '2026-01-02', agents => array[:'agent'], customers => '{globex}') h),
  (select sum(m.tasks) from queue_metrics('2026-01-01', '2026-01-02', '{completed}', array[:'agent'], '{globex}') m), 'of a customer, too');
select is((select count(*) from queue_history('2026-01-01', '2026-01-01', agents => array[:'agent']) h), 24::bigint, 'a past day has 24 hours');
select is((select array[min(h.at), max(h.until)] from queue_history('2026-01-01', '2026-01-01') h),
  array['2025-12-31 18:30+00', '2026-01-01 18:30+00']::timestamptz[], 'from midnight to midnight in the zone');
select is((select max(h.at) <= _now() and max(h.until) > _now() from queue_history('2026-01-02') h), true, 'today ends now');
select is((select bool_and(h.failed is null and h.completed is not null) from queue_history('2026-01-01', statuses => '{completed}') h), true,
  'a status that was not asked for is unknown, not 0');
select is((select count(*) from queue_history('2000-01-01') h), 366::bigint, 'a year of days at most');
update installation set time_zone = 'Europe/Paris';
select is((select count(*) from queue_history('2025-03-30', '2025-03-30') h), 23::bigint, 'a day on which clocks go forward has 23 hours');
update installation set time_zone = 'Asia/Kolkata';

-- retried: it leaves the hour in which it had failed
create temporary table before as select sum(h.failed) as n from queue_history('2026-01-01', '2026-01-03') h;
select retry_tasks(array[(select min(t.id) from tasks t where t.status = 'failed')]) \gset
select is((select sum(h.failed) from queue_history('2026-01-01', '2026-01-03') h), (select n - 1 from before), 'a retried task has not failed');

-- samples
select is((select bool_and(h.enqueued is null) from queue_history('2025-06-01', '2025-06-02') h), true, 'where nobody counted it is unknown');
insert into queue_samples select at, (select min(id) from agents), n, 1 from (values ('2026-01-01 00:05+00'::timestamptz, 4), ('2026-01-01 00:15+00', 9)) v(at, n);
select is((select array[h.enqueued, h.processing] from queue_history('2026-01-01', '2026-01-01') h where h.at = '2025-12-31 23:30+00'), array[9, 1]::bigint[],
  'the most that was counted at once in the hour');
select is((select max(h.enqueued) from queue_history('2026-01-01', '2026-01-01', customers => '{acme}') h), null::bigint, 'samples know no customers');
select refused('select queue_history(statuses => array[''done''])', 'LQ400', 'an unknown status');
set session authorization test_web;
select lives_ok('select lakequeue.queue_history()', 'the web process may ask');
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.queue_history()');

select * from finish();
rollback;
