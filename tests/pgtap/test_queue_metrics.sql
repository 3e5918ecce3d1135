-- Rule 15: the metrics equal a count over tasks and attempts at every instant, under every filter, before, between and
-- after foldings; a finished task belongs to its day in the reporting time zone.
begin;
\ir scenarios.sql
select plan(41);

-- --- the truth, counted ---------------------------------------------------------------------------
create function pg_temp.counted(from_day date, to_day date, statuses text[], agents text[], customers text[])
returns table (status text, tasks bigint, input_tokens bigint, output_tokens bigint, cached_tokens bigint, llm_cost numeric, ran bigint, priced bigint, median interval)
language sql as $$
  with matching as (
    select t.status, t.finished_at - t.created_at as response, u.*
    from lakequeue.tasks t
    join lakequeue.agents g on g.id = t.agent_id
    cross join lakequeue.installation i
    cross join lateral (
      select sum(a.input_tokens)::bigint as input, sum(a.output_tokens)::bigint as output,
             sum(a.cached_tokens)::bigint as cached, sum(a.llm_cost) as cost,
             count(*) > 0 and t.finished_at is not null as ran, bool_and(a.llm_cost is not null) as known
      from lakequeue.task_attempts a where a.task_id = t.id) u
    where (counted.agents is null or g.name = any(counted.agents)) and (counted.customers is null or t.customer = any(counted.customers))
      and (t.finished_at is null
           or ((from_day is null or (t.finished_at at time zone i.time_zone)::date >= from_day)
               and (to_day is null or (t.finished_at at time zone i.time_zone)::date <= to_day)))
  )
  select s.status::text, count(m.status), sum(m.input)::bigint, sum(m.output)::bigint, sum(m.cached)::bigint, sum(m.cost),
         count(*) filter (where m.ran), count(*) filter (where m.ran and m.known),
         percentile_disc(0.5) within group (order by m.response) filter (where m.status = 'completed')
  from unnest(enum_range(null::lakequeue.task_status)) s(status)
  left join matching m on m.status = s.status
  where counted.statuses is null or s.status::text = any(counted.statuses)
  group by s.status
$$;
create temporary table filters (from_day date, to_day date, statuses text[], agents text[], customers text[]);
create function pg_temp.differences() returns text language sql as $$
  select string_agg(format('%s: %s', f, d), '; ')
  from pg_temp.filters f
  cross join lateral (
    select coalesce(m.status, c.status) || ' ' || coalesce(m::text, 'nothing') || ' is not ' || coalesce(c::text, 'nothing')
    from lakequeue.queue_metrics(f.from_day, f.to_day, f.statuses, f.agents, f.customers) m
    full join pg_temp.counted(f.from_day, f.to_day, f.statuses, f.agents, f.customers) c on c.status = m.status
    where (m.tasks, m.input_tokens, m.output_tokens, m.cached_tokens, m.llm_cost, m.ran, m.priced)
            is distinct from (c.tasks, c.input_tokens, c.output_tokens, c.cached_tokens, c.llm_cost, c.ran, c.priced)
       or (m.median_response is null) <> (c.median is null)
       or abs(extract(epoch from m.median_response) / greatest(extract(epoch from c.median), 0.001) - 1) > 0.0251) d(difference)
$$;

-- --- a mixed sequence, over several days, in a zone where days begin elsewhere ----------------------
update installation set time_zone = 'Asia/Tokyo';
select set_clock('2026-01-01 12:00+00');
do $$
declare
  v_situation text;
  v_attempt bigint;
  n integer := 0;
begin
  foreach v_situation in array array[
    'running', 'running, lease over', 'running, asked to stop', 'result stored', 'result stored, run presumed dead', 'confirmed',
    'reported failure', 'reported failure, another runs', 'reported failure, another completed', 'reported permanent failure',
    'reported rate limit', 'reported that it stopped', 'run died, waiting', 'run died, failed', 'expired, enqueued',
    'expired, another runs', 'expired, another completed', 'expired, failed', 'expired, failed, result kept',
    'expired, completed from the kept result', 'expired, failed, retried', 'expired after a request, cancelled',
    'expired, cancelled in the queue', 'superseded', 'superseded, reported']
  loop
    n := n + 1;
    perform advance(make_interval(mins => 97 * n));  -- so that days and response times differ
    v_attempt := attempt_in(v_situation);
    perform record_usage(v_attempt, 1000 + n, 100 + n, n, n * 0.0001, complete => n % 2 = 0, source => 'callback');
    if n % 3 = 0 then
      perform record_usage(v_attempt, 900 + n, 90 + n, n, n * 0.0003, trace_id => 'tr-' || n);
    end if;
  end loop;
  for n in 1..30 loop
    perform configure_agent('metrics ' || n % 3, tokens_per_task => 1);
    perform enqueue_task('metrics ' || n % 3, '/' || n, customer => (array['', 'acme', 'umbrella'])[n % 3 + 1], priority => n % 10);
  end loop;
  for n in 1..4 loop  -- one of them completes after seconds, others later
    perform report(d.attempt_id, (array['success', 'failure', 'success', 'permanent_failure'])[n],
                   case when n in (1, 3) then '{"x": 1}'::json end, input_tokens => 10 * n, output_tokens => n, llm_cost => 0.5, usage_complete => true)
    from dequeue_tasks('w', 4, array['metrics 0', 'metrics 1']) d;
    perform advance(make_interval(secs => 3 ^ (n * 2)));
  end loop;
  perform dequeue_tasks('w', 12);
  perform reprocess_tasks(array(select id from tasks where status = 'completed' order by id limit 3), 'again', 'ops');
  perform cancel_tasks(array(select id from tasks where status in ('enqueued', 'processing') order by id desc limit 5), 'enough', 'ops');
  perform retry_tasks(array(select id from tasks where status in ('failed', 'cancelled') order by id desc limit 4), 'once more', 'ops');
  perform extend_leases(array_agg(a.id), array_agg(token(a.id)), array_agg(9000 + a.id), array_agg(a.id))
  from task_attempts a where a.status = 'running';
end $$;
insert into filters values (null, null, null, null, null), (null, null, null, null, '{acme}'), (null, null, null, null, '{"",umbrella}'),
  (null, null, null, null, '{nobody}'), (null, null, null, '{"metrics 0","metrics 1"}', null), (null, null, '{completed}', null, null),
  (null, null, '{enqueued,processing}', null, null), (null, null, '{failed,cancelled}', '{"metrics 0"}', '{"",acme}'),
  ('2026-01-03', null, null, null, null), (null, '2026-01-07', null, null, null), ('2026-01-05', '2026-01-05', null, null, null),
  ('2026-01-04', '2026-01-15', '{completed,failed}', null, '{acme}'), ('2026-01-05', '2026-01-04', null, null, null),
  (null, null, '{}', null, null), (null, null, null, '{}', null), (null, null, null, null, '{}');
insert into filters select day::date, day::date, null, null, null from generate_series('2026-01-01'::date, '2026-02-28', '1 day') day;

select cmp_ok((select min(n) from (select s.status, count(t.id) as n from unnest(enum_range(null::task_status)) s(status) left join tasks t on t.status = s.status group by s.status) c),
  '>=', 3::bigint, '(every status occurs)');
select cmp_ok((select count(distinct finished_at::date) from tasks), '>=', 8::bigint, '(on many days)');
select ok(exists (select from tasks where finished_at::date <> (finished_at at time zone 'Asia/Tokyo')::date), '(some of them others in Tokyo)');
select cmp_ok((select count(distinct (select count(*) from task_attempts a where a.task_id = t.id)) from tasks t), '>=', 3::bigint, '(with none, one and more attempts)');

select cmp_ok((select count(*) from task_deltas), '>', 100::bigint, '(nothing is folded)');
select is(pg_temp.differences(), null, 'unfolded, the metrics equal a count');
insert into task_deltas (agent_id, customer, tasks, to_status, to_day, to_input_tokens)
select agent_id, customer, 0, 'failed', '2026-01-05', 1 from tasks limit 1;
select isnt(pg_temp.differences(), null, '(which a single token too many would upset)');
delete from task_deltas where tasks = 0;
select is(fold_rollups(37), 37::bigint, '(some is folded)');
select is(pg_temp.differences(), null, 'half folded, they do');
select fold_rollups();
select is((select count(*) from task_deltas), 0::bigint, '(all is folded)');
select is(pg_temp.differences(), null, 'folded, they do');

-- more of the same on top
do $$
begin
  perform advance('3 hours');
  perform sweep_leases(1000);
  perform report(d.attempt_id, 'success', '{"x": 1}', input_tokens => 7, output_tokens => 7, usage_complete => true) from dequeue_tasks('w', 9) d;
  perform retry_tasks(array(select id from tasks where status = 'failed' order by id limit 4), 'once more', 'ops');
  perform record_usage(a.id, 5, 5, 5, 5) from task_attempts a join tasks t on t.id = a.task_id
    where t.status = 'completed' and a.status = 'succeeded' and a.usage_source is distinct from 'trace';
end $$;
select cmp_ok((select count(*) from task_deltas), '>', 10::bigint, '(more has happened)');
select is(pg_temp.differences(), null, 'rollups and new deltas together equal a count');
select fold_rollups();
select is(pg_temp.differences(), null, 'folded again, they do');

-- D7: every combination of range, statuses, agents and customers
delete from filters;
insert into filters
select * from (values (null::date, null::date), ('2026-01-02', '2026-01-03'), ('2026-01-03', null), (null, '2026-01-02')) r(from_day, to_day)
cross join (values (null::text[]), ('{enqueued,failed}'), ('{processing,completed,cancelled}')) s(statuses)
cross join (values (null::text[]), ('{"metrics 1","metrics 2"}')) a(agents)
cross join (values (null::text[]), ('{""}'), ('{acme,umbrella}'), ('{nobody}')) c(customers);
select is_empty($$
  select f.* from pg_temp.filters f
  where (select sum(m.tasks) from queue_metrics(f.from_day, f.to_day, f.statuses, f.agents, f.customers) m)
    <> (select count(*) from list_tasks(f.from_day, f.to_day, f.statuses, f.agents, f.customers, 1000))$$, 'as many tasks as the list has');
select is_empty($$
  select f.* from pg_temp.filters f
  where f.statuses is null and (select sum(m.llm_cost) from queue_metrics(f.from_day, f.to_day, f.statuses, f.agents, f.customers) m)
    is distinct from (select c.cost from cost_report(f.from_day, f.to_day, f.statuses, f.agents, f.customers, '{}') c where c.kind = 'llm')$$,
  'at the cost that the report tells');
select is(pg_temp.differences(), null, format('%s filters, all that can be combined, equal a count', count(*))) from filters;

-- --- what they say ---------------------------------------------------------------------------------
select results_eq(
  $$select status from queue_metrics()$$, $$values ('enqueued'), ('processing'), ('completed'), ('failed'), ('cancelled')$$,
  'there is a row for every status');
select results_eq(
  $$select status, tasks, input_tokens, llm_cost, median_response from queue_metrics(customers => array['nobody'], statuses => array['failed', 'completed'])$$,
  $$values ('completed', 0::bigint, null::bigint, null::numeric, null::interval), ('failed', 0, null, null, null)$$,
  'for every one asked for, also where there is nothing; without a completed task there is no median');
select configure_agent('metrics told');
create function pg_temp.told() returns text language sql as $$
  select concat_ws(' ', coalesce(sum(m.input_tokens)::text, '-'), coalesce(sum(m.output_tokens)::text, '-'), coalesce(sum(m.cached_tokens)::text, '-'),
                   coalesce(sum(m.llm_cost)::text, '-'), sum(m.priced) || '/' || sum(m.ran))
  from lakequeue.queue_metrics(agents => array['metrics told']) m $$;
create temporary table told as select claim(enqueue_task('metrics told', '/' || n)) as attempt, n from generate_series(1, 3) n;
select is(pg_temp.told(), '- - - - 0/0', 'while they run nothing is known, and nothing is owed an answer');
select report(attempt, 'success', '1') from told where n = 1 \gset
select is(pg_temp.told(), '- - - - 0/1', 'a task that told nothing: unknown, not 0');
select report(attempt, 'success', '1', input_tokens => 0, llm_cost => 0) from told where n = 2 \gset
select is(pg_temp.told(), '0 - - 0 1/2', 'one that told 0: 0, as far as it told');
select fold_rollups() \gset
select is(pg_temp.told(), '0 - - 0 1/2', 'also when folded');
select record_usage(attempt, 100, 10, 5, 0.5) from told where n = 1 \gset
select report(attempt, 'success', '1') from told where n = 3 \gset
select is(pg_temp.told(), '100 10 5 0.5 2/3', 'settled later by the trace');

update installation set time_zone = 'UTC';
select configure_agent('metrics day');
select set_clock('2026-05-01 23:50+00');
create temporary table late as select claim(enqueue_task('metrics day', '/late')) as attempt;
select set_clock('2026-05-02 00:10+00');
select report(attempt, 'success', '1') from late;
select is((select tasks from queue_metrics('2026-05-01', '2026-05-01', '{completed}', '{"metrics day"}')), 0::bigint, 'a task that ends after midnight is not of the day before');
select is((select tasks from queue_metrics('2026-05-02', '2026-05-02', '{completed}', '{"metrics day"}')), 1::bigint, 'but of the new day');
select enqueue_task('metrics day', '/live');
select is((select tasks from queue_metrics('2020-01-01', '2020-01-01', '{enqueued}', '{"metrics day"}')), 1::bigint, 'live tasks are now, whatever the days asked for');
select is((select median_response from queue_metrics(agents => '{"metrics day"}', statuses => '{completed}')) between '19.5 minutes' and '20.5 minutes', true,
  'the median response time is from enqueueing to the end, within 2.5 %');

-- --- refused ---------------------------------------------------------------------------------------
select refused($$select * from queue_metrics(statuses => array['done'])$$, 'LQ400', 'an unknown status is refused');
select refused($$select * from queue_metrics(statuses => array[null::text])$$, 'LQ400', 'so is null as one');
select refused($$select * from queue_metrics(agents => array['metrics nobody'])$$, 'LQ404', 'so is an unknown agent');
select refused($$select * from queue_metrics(agents => array[null::text])$$, 'LQ404', 'and null as one');

set session authorization test_reader;
select is((select count(*) from lakequeue.queue_metrics()), 5::bigint, 'a reader may ask');
set session authorization test_web;
select is((select count(*) from lakequeue.queue_metrics()), 5::bigint, 'the web process may');
set session authorization test_operator;
select is((select count(*) from lakequeue.queue_metrics()), 5::bigint, 'an operator may');
set session authorization test_owner;
select not_for('test_app', 'select * from lakequeue.queue_metrics()');
select not_for('test_agent', 'select * from lakequeue.queue_metrics()');

-- Response times of other days are not looked at.
insert into response_histogram (agent_id, customer, by_month, day, bucket, tasks)
select 0, null, false, date '2020-01-01' + d, 1, 1 from generate_series(0, 99) d
union all
select 0, null, true, date '2020-01-01' + make_interval(months => m), 1, 25 from generate_series(0, 3) m;
set enable_bitmapscan = off;  -- which counts a row twice in 15
select is(reads('response_histogram', $$select queue_metrics('2020-02-01', '2020-02-02')$$), 2::bigint, 'those of two days by their index');
select is(reads('response_histogram', $$select queue_metrics('2020-01-30', '2020-03-03')$$), 6::bigint, 'of a whole month its own, between the days around it');
select is(reads('response_histogram', $$select queue_metrics(to_day => '2020-12-31')$$),
  4 + (select count(*) from response_histogram h where h.agent_id = 0 and h.customer is null and h.by_month and h.day between '2020-05-01' and '2020-12-31'),
  'of a long time months alone');
select is(reads('response_histogram', $$select response_history('2020-02-01', '2020-02-08')$$), 16::bigint, 'so does response_history, for days and for all of them');

select * from finish();
rollback;
