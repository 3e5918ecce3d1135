-- quiesce: a copy lets go of everything that is the original's and does nothing by itself; said once, in one transaction.
begin;
\ir scenarios.sql
select plan(56);

-- Everything that can be open in the database that was copied.
create temporary table was (what text, attempt bigint);
select attempt_in('superseded') as lost \gset
select start() as running \gset
select attempt_in('running, lease over') as late \gset
select attempt_in('running, asked to stop') as asked \gset
select attempt_in('confirmed') as done \gset
select attempt_in('run died, waiting') as retrying \gset
select start() as unsubmitted \gset
select new_task() as waiting \gset
insert into was values ('running', :running), ('late', :late), ('asked', :asked), ('lost', :lost), ('done', :done), ('retrying', :retrying),
  ('unsubmitted', :unsubmitted);
select count(*) from record_runs(array[:running, :late, :asked, :lost, :done], array[1, 2, 3, 4, 5]) \gset
select configure_agent(agent_of(task_of(:running)), job_id => 77, reserves_calls => true, max_tpm => 100000) \gset
select reserve_tokens(:running, token(:running), 10, 10, '00000000-0000-0000-0000-000000000001') \gset
select worker_heartbeat('w1', relay => 'databricks'), worker_heartbeat('stopped', stopping => true) \gset
update installation set home = 'server 1, database 2';
create temporary table before as
select a.id, token(a.id) as token, a.run_key, a.run_id from task_attempts a;
create temporary table secret as select i.id, i.secret from installation i;
create temporary table finished as
select t.id, to_jsonb(t) as task from tasks t where t.finished_at is not null or t.id = :waiting;
select advance('1 s') \gset

-- --- what it says -------------------------------------------------------------------------------------------------

set session authorization test_operator;
create temporary table said as select * from quiesce('look at the stuck batch');
grant select on said to public;
set session authorization test_owner;
select row_is(to_jsonb(s), '{"outcome": "quiesced", "attempts_closed": 4, "runs_let_go": 4, "tasks_requeued": 3, "workers_dismissed": 1}', 'it says what it did')
from said s;
select is(s.agents_paused, (select count(*)::integer from agents), 'to every agent') from said s;
select row_is(to_jsonb(e), '{"actor": "test_operator", "reason": "look at the stuck batch"}', 'who and why is noted')
from (select null) one left join task_events e on e.kind = 'quiesced';
select row_is(e.detail, jsonb_build_object('from', 'server 1, database 2', 'to', _here(null), 'original', (select s.id from secret s),
              'jobs', jsonb_build_object(agent_of(task_of(:running)), 77)), 'also what agents lost')
from (select null) one left join task_events e on e.kind = 'quiesced';
select lives_ok('select check_home()', 'workers may come');
select ledger_is_exact();
select says_and_changes_nothing('select outcome || attempts_closed || agents_paused from quiesce(''again'')', 'quiesced already00', 'a second time does nothing');

-- --- nothing is claimed, adopted, swept, looked up or cancelled -----------------------------------------------------

select is_empty('select from task_attempts a where a.status = ''running'' or a.run_ended_at is null', 'no attempt is open, no run counts');
select is(states(attempt), expected, what || ': ' || expected)
from (values ('running', :running, 'enqueued cancelled'), ('late', :late, 'enqueued cancelled'), ('asked to stop', :asked, 'cancelled cancelled'),
             ('not submitted', :unsubmitted, 'enqueued cancelled'), ('overtaken', :lost, 'completed superseded'), ('done', :done, 'completed succeeded'),
             ('waiting to retry', :retrying, 'enqueued failed')) v(what, attempt, expected);
select row_is(to_jsonb(a), '{"error_class": "quiesced"}', 'a closed attempt says why') from task_attempts a where a.id = :running;
select task_is(task_of(:running), '{"failures": 0, "rate_limited": 0, "retry_at": null}', 'no failure of anybody''s');
select is_empty('select from finished f join tasks t using (id) where to_jsonb(t) <> f.task', 'what was over or waiting is as it was');
select is_empty('select from model_calls c where c.ended_at is null', 'no model call is under way');
select is_empty('select from dequeue_tasks(''w9'', 100)', 'nothing is claimed');
select is_empty('select from adopt_attempts(''w9'', 100)', 'nothing is adopted');
select advance('1 day') \gset
select row_is(to_jsonb(s), '{"expired": 0, "runs_ended": 0, "workers_lost": 0}', 'nothing expires') from sweep_leases(1000) s;
select is_empty('select from dequeue_tasks(''w9'', 100)', 'nothing is claimed when retries are due');
select is_empty('select from runs_to_check(''w9'', 1000)', 'no run is looked up or cancelled');
select advance('-1 day') \gset

select refused('select worker_heartbeat(''w1'')', 'LQ421', 'a worker that was connected is sent away');
select lives_ok('select worker_heartbeat(''new'')', 'a new one is not');

-- --- old tokens and keys ------------------------------------------------------------------------------------------

select isnt(i.id, s.id, 'another installation') from installation i cross join secret s;
select ok(i.secret <> s.secret and octet_length(i.secret) = 32, 'another secret') from installation i cross join secret s;
select refused(format('select record_callback(%s, %L, ''success'', ''{}'')', b.id, b.token), 'LQ401', 'the old token is refused: ' || w.what)
from before b join was w on w.attempt = b.id order by w.attempt;
select is_empty($$select from before b join task_attempts a using (id) join was w on w.attempt = b.id
                  where w.what in ('running', 'late', 'asked', 'lost', 'unsubmitted') and a.run_key = b.run_key$$, 'what was open has another key');
select is_empty('select from before b join task_attempts a using (id) where a.run_id is distinct from b.run_id', 'which run it was stays known');

-- --- the original's traces and bills ------------------------------------------------------------------------------

select is(i.inherited_attempts, (select max(a.id) from task_attempts a), 'every attempt until now is inherited') from installation i;
select is_empty('select from attempts_to_settle(1000)', 'no trace is looked up');

-- --- and then it lives its own life -------------------------------------------------------------------------------

select is_empty('select from agents g where g.paused_at is null or g.job_id is not null', 'every agent is paused and has no job');
select is(g.pause_reason || ' by ' || g.paused_by, 'quiesced copy: look at the stuck batch by test_operator', 'and says why') from agents g where g.name = agent_of(:waiting);
select is(count(*), 1::bigint, '(a worker of local runs)') from (select worker_heartbeat('w9', relay => 'local')) h;
select resume_agent(agent_of(task_of(:running))) \gset
select results_eq('select task_id, attempt_number, job_id from dequeue_tasks(''w9'', 100)', format('values (%s::bigint, 2, null::bigint)', task_of(:running)),
                  'what is resumed is claimed, without the original''s job');
select a.id as own from task_attempts a where a.status = 'running' \gset
select is(report(:own, 'success', '{"total": 2}'), 'accepted', 'with a token of this installation');
select set_eq('select attempt_id from attempts_to_settle(1000)', array[:own]::bigint[], 'its traces are its own');
select ledger_is_exact();

-- --- what is no copy ----------------------------------------------------------------------------------------------

update installation set quiesced_at = null;
select refused('select quiesce(''a mistake'')', 'LQ409', 'the installation itself is not quiesced');
select refused('select quiesce(''a mistake'', is_copy => null)', 'LQ409', 'whatever is left open');
update installation set home = null;
select refused('select quiesce(''a mistake'')', 'LQ409', 'nor one that may be it');
select is(q.outcome, 'quiesced', 'unless somebody knows better') from quiesce('files of the server were copied', is_copy => true) q;
update installation set quiesced_at = null;
select is(q.outcome, 'quiesced', 'a branch of Lakebase is told by its name') from quiesce('branch', lakebase_endpoint => 'projects/p/branches/debug') q;
select refused(format('select quiesce(%s)', reason), 'LQ400', 'reason ' || reason) from unnest(array['null', ''' ''']) reason;
select not_for(login, 'select lakequeue.quiesce(''why'')') from unnest(array['test_web', 'test_worker', 'test_stranger']) login;

select * from finish();
rollback;
