-- record_runs: the run of each attempt is noted once, also of one that has ended meanwhile; answers come in order.
begin;
\ir scenarios.sql
select plan(38);

select start() as a \gset
select start() as b \gset
select task_of(:a) as task \gset

select results_eq(
  format('select * from record_runs(array[%1$s, 0, %2$s, null], array[11, 12, 13, 14])', :b, :a),
  format('values (%s::bigint, ''recorded''), (0, ''unknown''), (%s, ''recorded''), (null, ''unknown'')', :b, :a), 'a row per attempt, in order');
select attempt_is(:b, '{"run_id": 11, "status": "running"}', 'each run is noted with its attempt');
select attempt_is(:a, '{"run_id": 13}', 'the other one too');
select says_and_changes_nothing(format('select answer from record_runs(array[%s], array[11])', :b), 'duplicate', 'the same run again');
select says_and_changes_nothing(format('select answer from record_runs(array[%s], array[99])', :b), 'conflict', 'another run: the first one stays');
select attempt_is(:b, '{"run_id": 11}', 'it does');

-- an attempt twice in one call
select start() as c \gset
select set_eq(format('select answer from record_runs(array[%1$s, %1$s], array[21, 21])', :c), array['recorded', 'recorded'], 'the same run twice in a call');
select start() as d \gset
select results_eq(format('select answer from record_runs(array[%1$s, %1$s, %1$s], array[31, 32, 31])', :d),
                  $$ values ('recorded'), ('conflict'), ('recorded') $$, 'two runs in a call: the first one counts');
select attempt_is(:d, '{"run_id": 31}', 'it does');

-- when
select start() as g \gset
select advance('7 s') \gset
select answer from record_runs(array[:g], array[41]) \gset
select is((select a.submitted_at from task_attempts a where a.id = :g), _now(), 'when it was submitted is noted');
select advance('7 s') \gset
select answer from record_runs(array[:g], array[41]) \gset
select is((select a.submitted_at from task_attempts a where a.id = :g), _now() - interval '7 s', 'the first time');

-- and that there is something to bill, once its task is finished
create function pg_temp.billable(task bigint) returns bigint language sql as $$
  select sum(l.billable)::bigint from _ledger(array(select t.agent_id from tasks t where t.id = task), _statuses(null), null) l
$$;
select start() as h \gset
select start() as local \gset
update task_attempts set job_id = 7 where id = :h;
select count(*) from record_runs(array[:h, :local], array[51, 52]) \gset
select is(pg_temp.billable(task_of(:h)), 0::bigint, 'a task that runs counts as none to bill');
select start() as late \gset
update task_attempts set job_id = 7 where id = :late;
select count(report(a, 'success', '1')) from unnest(array[:h, :local, :late]) a \gset
select is(pg_temp.billable(task_of(:h)), 1::bigint, 'one that is finished does');
select answer from record_runs(array[:late], array[53]) \gset
select is(pg_temp.billable(task_of(:late)), 1::bigint, 'also when its run is noted late');
select is(pg_temp.billable(task_of(:local)), 0::bigint, 'but no local run');

-- a paid run is never lost from the books
create temporary table closed as
select s.situation, attempt_in(s.situation) as attempt
from unnest(array['result stored', 'confirmed', 'reported failure', 'run died, failed', 'expired, enqueued', 'expired, another runs',
                  'expired, another completed', 'superseded']) s(situation);
select is(r.answer, 'recorded', c.situation || ': its run is noted') from closed c, lateral record_runs(array[c.attempt], array[40]) r;

-- the limits of a run id
select start() as e \gset
select start() as f \gset
select results_eq(format('select answer from record_runs(array[%s, %s], array[9223372036854775807, ''-9223372036854775808''])', :e, :f),
                  $$ values ('recorded'), ('recorded') $$, 'a run may have any 64-bit id');

-- refused, and for whom
select refused('select record_runs(' || arguments || ')', 'LQ400', arguments)
from (values ('array[1, 2], array[1]'), ('array[1], array[1, 2]'), ('array[1], ''{}'''), ('null, array[1]'), ('array[1], null'),
             (format('array[%s, %s], array[50, null]', :e, :f))) v(arguments);
select is_empty('select * from record_runs(''{}'', ''{}'')', 'no runs, no answers');
set session authorization test_worker;
select is(answer, 'unknown', 'a worker calls it') from record_runs(array[0], array[1]);
set session authorization test_owner;
select not_for(login, 'select lakequeue.record_runs(''{}'', ''{}'')')
from unnest(array['test_app', 'test_web', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
