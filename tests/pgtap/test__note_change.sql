-- Rule 15: each change of a task's status or usage leaves one delta that says from which group it went to which,
-- with what it carried; what changed neither leaves none. Days are those of the reporting time zone.
begin;
\ir scenarios.sql
select plan(22);

update installation set time_zone = 'Asia/Tokyo';
-- the next day in Tokyo
select set_clock('2026-01-01 20:00+00') \gset

create temporary table seen (id bigint);
-- The deltas since the last look.
create function pg_temp.deltas()
returns setof lakequeue.task_deltas language sql
as $$
  with fresh as (select d.* from lakequeue.task_deltas d where d.id not in (select s.id from seen s)),
       noted as (insert into seen select f.id from fresh f)
  select f.* from fresh f order by f.id
$$;

select start() as a \gset
select task_of(:a) as task \gset
create temporary table before as select t as task from tasks t where t.id = :task;
select is(count(*), 2::bigint, 'a task was enqueued and claimed') from pg_temp.deltas();

select _note_change(b.task, b.task, _task_usage(:task)) from before b \gset
select is_empty('select pg_temp.deltas()', 'no change, no delta');

-- usage alone
update task_attempts set input_tokens = 10, llm_cost = 0.25 where id = :a;
select _note_change(b.task, b.task, '{0,0,0,0,1,0,0,0,0,0,0}') from before b \gset
select results_eq(
  $$ select customer, tasks, from_status, from_day, from_bucket, from_input_tokens, from_llm_cost,
            to_status, to_day, to_bucket, to_input_tokens, to_output_tokens, to_cached_tokens, to_llm_cost from pg_temp.deltas() $$,
  $$ values ('acme', 1::bigint, 'processing'::task_status, null::date, null::smallint, 0::bigint, 0::numeric,
             'processing'::task_status, null::date, null::smallint, 10::bigint, 0::bigint, 0::bigint, 0.25) $$,
  'usage alone: the task stays in its group and carries more');

-- what its runs are to be billed for, that of a live task nobody counts yet
update task_attempts set job_id = 7 where id = :a;
select is(report(:a, 'success', run_id => 7), 'result_missing', 'its run becomes known, and nothing else');
select is((_task_usage(:task))[11], 1::numeric, 'there is one');
select is_empty('select pg_temp.deltas()', 'no delta');

-- status alone
select advance('60 s') \gset
select store(:a) \gset
create temporary table completed as select * from pg_temp.deltas();
select results_eq(
  $$ select tasks, from_status, from_day, from_bucket, from_input_tokens, to_status, to_day, to_input_tokens from completed $$,
  $$ values (1::bigint, 'processing'::task_status, null::date, null::smallint, 10::bigint, 'completed'::task_status,
             '2026-01-02'::date, 10::bigint) $$,
  'status alone: it takes what it carries to its new group, on the day it is in Tokyo');
select is(c.to_hour, '2026-01-01 20:00+00', 'in the hour it is') from completed c;
select ok(60 between power(1.05, c.to_bucket - 1) and power(1.05, c.to_bucket), 'with the bucket of its 60 seconds')
from completed c;

-- usage that is settled later
select advance('1 day') \gset
select is(record_usage(:a, 12, 3), 'recorded', 'usage is settled a day later');
select results_eq(
  $$ select tasks, from_status, from_day, to_status, to_day, from_bucket = to_bucket, from_input_tokens, to_input_tokens, to_output_tokens
     from pg_temp.deltas() $$,
  $$ values (1::bigint, 'completed'::task_status, '2026-01-02'::date, 'completed'::task_status, '2026-01-02'::date, true,
             10::bigint, 12::bigint, 3::bigint) $$,
  'it belongs to the day the task was finished');
select is(record_usage(:a, 12, 3), 'recorded', 'the same usage again');
select is_empty('select pg_temp.deltas()', 'leaves no delta');

-- days and response times are for those who have them
select start(1) as b \gset
select count(*) from pg_temp.deltas() \gset
select report(:b, 'failure') \gset
select results_eq('select from_status, to_status, to_day, to_bucket from pg_temp.deltas()',
                  $$ values ('processing'::task_status, 'failed'::task_status, '2026-01-03'::date, null::smallint) $$,
                  'a failed task has a day but no response time');
select retry_task(task_of(:b), actor => 'ops') \gset
select results_eq('select from_status, from_day, to_status, to_day from pg_temp.deltas()',
                  $$ values ('failed'::task_status, '2026-01-03'::date, 'enqueued'::task_status, null::date) $$,
                  'retried, it leaves that day');

-- every way a task can go, and nothing forgotten on it
do $$
declare
  v_situation text;
  v_attempt bigint;
begin
  foreach v_situation in array array[
    'running', 'result stored', 'confirmed', 'reported failure', 'reported permanent failure', 'reported rate limit',
    'reported that it stopped', 'run died, another runs', 'expired, another completed', 'expired, failed',
    'expired, completed from the kept result', 'expired, failed, retried', 'expired after a request, cancelled',
    'expired, cancelled in the queue', 'superseded'] loop
    v_attempt := attempt_in(v_situation);
    perform report(v_attempt, 'failure', input_tokens => 5, output_tokens => 4, cached_tokens => 3, llm_cost => 0.1);
    perform record_usage(v_attempt, 50, 40, 30, 1);
    if v_situation = 'confirmed' then
      perform reprocess_task(task_of(v_attempt), actor => 'ops');
    end if;
  end loop;
end $$;
select task_of(job_run(1, outcome => 'failure')) as job \gset
select results_eq(format('select from_billable, to_billable from task_deltas d where d.agent_id = (select t.agent_id from tasks t where t.id = %s) and to_status = ''failed''', :job),
                  $$ values (0::bigint, 1::bigint) $$, 'a job run is billed for once its task is finished');
select retry_task(:job, actor => 'ops') \gset
select results_eq(format('select from_billable, to_billable from task_deltas d where d.agent_id = (select t.agent_id from tasks t where t.id = %s) and from_status = ''failed''', :job),
                  $$ values (1::bigint, 0::bigint) $$, 'and not while it is retried');
select cmp_ok(count(*), '>', 50::bigint, 'many changes were noted') from pg_temp.deltas();
select set_eq('select distinct to_status::text from task_deltas',
              array['enqueued', 'processing', 'completed', 'failed', 'cancelled'], 'into every status');
select ledger_is_exact();
delete from task_deltas where id = (select max(id) from task_deltas);
select isnt(ledger_differences(), null, 'with one delta less they would not');

select not_for('test_worker', 'select lakequeue._note_change(null, null, null)');
select * from finish();
rollback;
