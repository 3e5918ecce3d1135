-- What happened to a task, by when, who and why: from task, attempts and events.
begin;
\ir scenarios.sql
select plan(19);

create temporary table task as select new_task() as id;
create function pg_temp.line(kind text) returns text language sql as $$
  select string_agg(format('%s attempt %s by %s: %s', to_char(l.at at time zone 'UTC', 'HH24:MI'), coalesce(l.attempt_number::text, '-'), coalesce(l.actor, '-'),
                           coalesce(l.reason, '-')), '; ' order by l.at)
  from lakequeue.task_timeline l, pg_temp.task where l.task_id = task.id and l.kind = line.kind
$$;
select is((select count(*) from task_timeline l, task where l.task_id = task.id), 1::bigint, 'a new task has one line');
select is(pg_temp.line('enqueued'), '12:00 attempt - by -: -', 'that it was enqueued');
select set_clock('2026-01-01 12:01+00');
create temporary table first as select claim(id) as attempt from task;
select record_runs(array[attempt], array[4711]) from first;
select set_clock('2026-01-01 12:02+00');
select report(attempt, 'failure', error_class => 'timeout', error => '"too slow"', trace_id => 'tr-1') from first;
select is(pg_temp.line('claimed'), '12:01 attempt 1 by w1: -', 'a claim is told with the worker');
select is(pg_temp.line('attempt_failed'), '12:02 attempt 1 by w1: too slow', 'the end of an attempt with the error');
select is((select detail from task_timeline l, task where l.task_id = task.id and l.kind = 'attempt_failed'),
  '{"run_id": 4711, "trace_id": "tr-1", "error_class": "timeout"}', 'and its run');
select is(pg_temp.line('submitted') || (select l.detail from task_timeline l, task where l.task_id = task.id and l.kind = 'submitted'),
  '12:01 attempt 1 by w1: -{"run_id": 4711}', 'between them that its run was submitted');
select is(pg_temp.line('enqueued') || pg_temp.line('claimed'), '12:00 attempt - by -: -12:01 attempt 1 by w1: -', 'nothing of it is told twice');
select set_clock('2026-01-01 12:30+00');
create temporary table second as select claim_again(id) as attempt from task;
grant select on task to public;
set session authorization test_web;
select lakequeue.cancel_task(id, 'not needed', 'ops') from task;
set session authorization test_owner;
select is((select format('%s by %s: %s', to_char(at at time zone 'UTC', 'HH24:MI'), actor, reason) from task_timeline l, task
           where l.task_id = task.id and l.kind like 'cancel%'), '12:30 by ops: not needed', 'what a person did is told in their name and words');
select set_clock('2026-01-01 12:31+00');
select report(attempt, 'cancelled') from second;
select is(pg_temp.line('attempt_cancelled'), '12:31 attempt 2 by w2: -', 'the second attempt has its own lines');
select is(pg_temp.line('cancelled'), '12:31 attempt - by -: -', 'and the task its end');
select is((select array_agg(l.kind order by l.at, l.attempt_number nulls first) from task_timeline l, task where l.task_id = task.id and l.kind not like 'cancel\_%'),
  '{enqueued,claimed,submitted,attempt_failed,claimed,cancelled,attempt_cancelled}', 'that is all');
select is((select count(*) from task_timeline where task_id is null), 0::bigint, 'what agents and people did without a task is not in it');

select is(pg_temp.line('attempt_running'), null, 'a running attempt has not ended');
create temporary table expired as select attempt_in('expired, enqueued') as attempt;
select is((select count(*) from task_timeline, expired where task_id = task_of(attempt) and kind = 'lease_expired' and attempt_number = 1), 1::bigint,
  'transitions out of the ordinary are told with their attempt');

set session authorization test_reader;
select cmp_ok((select count(*) from lakequeue.task_timeline l, task where l.task_id = task.id), '>', 5::bigint, 'a reader may look');
set session authorization test_web;
select cmp_ok((select count(*) from lakequeue.task_timeline l, task where l.task_id = task.id), '>', 5::bigint, 'the web process may');
set session authorization test_owner;
select not_for('test_worker', 'select * from lakequeue.task_timeline');
select not_for('test_agent', 'select * from lakequeue.task_timeline');
select not_for('test_app', 'select * from lakequeue.task_timeline');

select * from finish();
rollback;
