-- Folding moves deltas into rollups and histogram, oldest first and at most as many as asked for, and loses nothing.
begin;
\ir scenarios.sql
select plan(40);

select is(fold_rollups(), 0::bigint, 'where there is nothing to fold, nothing is folded');

-- two agents, three customers, two days
select configure_agent('_fr a'), configure_agent('_fr b');
do $$
begin
  for n in 1..12 loop
    perform enqueue_task('_fr ' || substr('ab', n % 2 + 1, 1), '/' || n, customer => (array['', 'acme', 'umbrella'])[n % 3 + 1]);
  end loop;
  for n in 1..8 loop
    perform advance('1 hour 40 minutes');
    perform report(d.attempt_id, case when n % 4 = 0 then 'permanent_failure' else 'success' end,
                   case when n % 4 > 0 then '{"x": 1}'::json end, input_tokens => 100 * n, output_tokens => n, cached_tokens => 1,
                   llm_cost => 0.01 * n, usage_complete => true)
    from dequeue_tasks('w', 1) d;
  end loop;
end $$;
create temporary table unfolded as select * from queue_metrics();
create temporary table delta as select * from task_deltas;
-- what the deltas add up to, by the groups of the two tables
create temporary table groups as
select s.agent_id, s.customer, s.status, s.day, sum(s.tasks)::bigint as tasks, sum(s.input_tokens)::bigint as input_tokens,
       sum(s.output_tokens)::bigint as output_tokens, sum(s.cached_tokens)::bigint as cached_tokens, sum(s.llm_cost) as llm_cost,
       sum(s.ran)::bigint as ran, sum(s.priced)::bigint as priced, sum(s.told)::bigint as told
from delta d cross join lateral (
  select d.agent_id, d.customer, d.from_status, d.from_day, -d.tasks, -d.from_input_tokens, -d.from_output_tokens, -d.from_cached_tokens, -d.from_llm_cost,
    -d.from_ran, -d.from_priced, -d.from_input_told - 2 * d.from_output_told - 3 * d.from_cached_told - 4 * d.from_cost_told
  where d.from_status is not null
  union all
  select d.agent_id, d.customer, d.to_status, d.to_day, d.tasks, d.to_input_tokens, d.to_output_tokens, d.to_cached_tokens, d.to_llm_cost,
    d.to_ran, d.to_priced, d.to_input_told + 2 * d.to_output_told + 3 * d.to_cached_told + 4 * d.to_cost_told
) s(agent_id, customer, status, day, tasks, input_tokens, output_tokens, cached_tokens, llm_cost, ran, priced, told)
group by s.agent_id, s.customer, s.status, s.day;

select is(fold_rollups(1), 1::bigint, 'one is folded');
select is((select min(id) from task_deltas), (select min(id) from delta where id > (select min(id) from delta)), 'the oldest');
select is((select count(*) from task_deltas), (select count(*) - 1 from delta), 'and it is gone');
select set_eq('select * from queue_metrics()', 'select * from unfolded', 'which readers do not notice');
select is(fold_rollups(7), 7::bigint, 'as many as asked for');
select set_eq('select * from queue_metrics()', 'select * from unfolded', 'again unnoticed');
select is(fold_rollups(100000), (select count(*) - 8 from delta), 'at most all');
select is((select count(*) from task_deltas), 0::bigint, 'none is left');
select set_eq('select * from queue_metrics()', 'select * from unfolded', 'unnoticed to the end');
select is(fold_rollups(), 0::bigint, 'and there is nothing more to fold');

select set_eq(
  'select agent_id, customer, status, day, tasks, input_tokens, output_tokens, cached_tokens, llm_cost, ran, priced,
          input_told + 2 * output_told + 3 * cached_told + 4 * cost_told from task_rollups where tasks <> 0',
  'select * from groups where tasks <> 0',
  'the rollups hold what the deltas held, by agent, customer, status and day');
select is((select count(*) from task_rollups where day is not null), (select count(*) from (
    select distinct agent_id, customer, status, finished_at::date from tasks where finished_at is not null) g), 'one row a group');
select set_eq(
  'select agent_id, customer, by_month, day, bucket, tasks from response_histogram',
  $$select agent_id, customer, m.*, _response_bucket(finished_at - created_at), count(*)
    from (select agent_id, customer, finished_at, created_at from tasks where status = 'completed'
          union all select 0, customer, finished_at, created_at from tasks where status = 'completed'
          union all select agent_id, null, finished_at, created_at from tasks where status = 'completed'
          union all select 0, null, finished_at, created_at from tasks where status = 'completed') t
    cross join lateral (values (false, finished_at::date), (true, to_char(finished_at, 'YYYY-MM-01')::date)) m(by_month, day)
    group by 1, 2, 3, 4, 5$$,
  'the histogram holds the completed tasks by their response times: of an agent and of all, of a customer and of all, of a day and of its month');
select set_eq(
  'select agent_id, customer, hour, bucket, tasks from hourly_histogram where agent_id <> 0 and customer is not null',
  $$select agent_id, customer, _hour(finished_at), _response_bucket(finished_at - created_at), count(*)
    from tasks where status = 'completed' group by 1, 2, 3, 4$$,
  'the hourly one, too');
select set_eq(
  'select agent_id, customer, hour, bucket, tasks from hourly_histogram where agent_id = 0 or customer is null',
  $$select coalesce(agent_id, 0), customer, hour, bucket, sum(tasks)::bigint from hourly_histogram
    where agent_id <> 0 and customer is not null group by hour, bucket, grouping sets ((agent_id), (customer), ())$$,
  'with all agents and all customers together');

-- a second folding adds
select report(claim(enqueue_task('_fr c', '/13', customer => 'acme')), 'success', '1') from configure_agent('_fr c');
select fold_rollups();
select report(claim(enqueue_task('_fr c', '/14', customer => 'acme')), 'success', '1');
select fold_rollups();
select results_eq(
  $$select customer, tasks from task_rollups where agent_id = (_agent('_fr c')).id and status = 'completed'$$, $$values ('acme', 2::bigint)$$,
  'what is folded later is added to the same row');
select is((select sum(tasks) from response_histogram where agent_id = (_agent('_fr c')).id and customer is not null and not by_month), 2::numeric, 'in the histogram too');

-- A late report of usage leaves its bucket and its hour and enters them again: that is no new version of a row that only counts tasks.
create temporary view versions as
select h.tableoid::regclass as relation, h.ctid::text as place, h.tasks from response_histogram h
union all
select h.tableoid::regclass, h.ctid::text, h.tasks from hourly_histogram h
union all
select h.tableoid::regclass, h.ctid::text, h.tasks from hourly_rollups h;
create temporary table versions_before as select * from versions;
select is(record_usage((select max(id) from task_attempts where agent_id = (_agent('_fr c')).id), 1000, 100), 'recorded', 'usage comes late');
select is(fold_rollups(), 1::bigint, 'it is folded');
select is((select input_tokens from task_rollups where agent_id = (_agent('_fr c')).id and status = 'completed'), 1000::bigint, 'into the rollup');
select set_eq('select * from versions', 'select * from versions_before', 'and writes no row of the others');

-- A delta that was written before migration 0008 knows a day and no hour.
insert into task_deltas (agent_id, customer, tasks, from_status, to_status, to_day, to_bucket)
values ((_agent('_fr c')).id, 'acme', 1, 'processing', 'completed', current_date, 10);
select is(fold_rollups(), 1::bigint, 'a delta without an hour is folded all the same');
select is((select count(*) from hourly_histogram where agent_id = (_agent('_fr c')).id and customer is not null), (select count(*) from (
  select distinct _hour(finished_at), _response_bucket(finished_at - created_at) from tasks
  where agent_id = (_agent('_fr c')).id and status = 'completed') h), 'and is in no hour');

-- Who calls every second is patient: a few deltas wait for a minute, many do not.
create function pg_temp.deltas(how_many integer) returns void language sql as $$
  insert into lakequeue.task_deltas (agent_id, customer, tasks, to_status)
  select (lakequeue._agent('_fr c')).id, 'acme', 1, 'enqueued' from generate_series(1, how_many)
$$;
select fold_rollups() \gset
select set_clock(_now() + interval '31 seconds');
select fold_rollups() \gset
select pg_temp.deltas(99);
create temporary table waiting as select * from queue_metrics();
select is(fold_rollups(patient => true), 0::bigint, 'a fold just done, and fewer than a hundred deltas: they wait');
select set_eq('select * from queue_metrics()', 'select * from waiting', 'and are read all the same');
select pg_temp.deltas(1);
select is(fold_rollups(patient => true), 100::bigint, 'a hundred do not');
select pg_temp.deltas(1);
select set_clock(_now() + interval '60 seconds');
select is(fold_rollups(patient => true), 0::bigint, 'one waits for a minute');
select set_clock(_now() + interval '1 second');
select is(fold_rollups(patient => true), 1::bigint, 'not longer');
select pg_temp.deltas(1);
select is(fold_rollups(), 1::bigint, 'who is not patient folds at once');
select pg_temp.deltas(1);
update upkeep set done_at = null where kind = 'fold';
select is(fold_rollups(patient => true), 1::bigint, 'nor does it wait where nobody has folded yet');
select refused('select fold_rollups(patient => null)', 'LQ400', 'null is neither');

select refused(format('select fold_rollups(%s)', n), 'LQ400', n || ' is refused') from unnest(array['null', '0', '-1', '100001']) n;
select lives_ok('select fold_rollups(100000)', '100000 is not');

set session authorization test_worker;
select lives_ok('select lakequeue.fold_rollups()', 'a worker may fold');
set session authorization test_owner;
select not_for('test_reader', 'select lakequeue.fold_rollups()');
select not_for('test_operator', 'select lakequeue.fold_rollups()');

select * from finish();
rollback;
