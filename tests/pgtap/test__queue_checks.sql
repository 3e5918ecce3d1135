-- What the checks of the queue say: each warns and alarms at its limits and not before, and says what to do.
begin;
\ir scenarios.sql
select plan(52);

update workers set stopped_at = '2000-01-01', heartbeat_at = '2000-01-01', started_at = '2000-01-01';
delete from task_events;
delete from task_deltas;

create function pg_temp.told(with_attention boolean default true) returns text[] language sql as $$
  select coalesce(array_agg(h.name || ' ' || h.status order by h.name), '{}') from lakequeue.health(with_attention) h
  where h.status <> 'ok' $$;
-- status, value and limits of a check, and what its words match
create function pg_temp.is_told(name text, status text, value numeric, expected text, description text) returns text language sql as $$
  select tap.ok(
    h.status = is_told.status and h.value = is_told.value
      and case when is_told.status = 'ok' then h.words is null else h.words ~ expected end,
    format('%s: %s (%s)', is_told.name, description, (h.status, h.value, h.words)))
  from lakequeue.health() h where h.name = is_told.name $$;

-- --- nobody works -------------------------------------------------------------------------------------------------

select new_agent(1) as agent \gset
select enqueue_task(:'agent', '/' || n) from generate_series(1, 3) n;
select is(pg_temp.told(), '{"no_worker alarm","sweep_age unknown"}', 'work, and nobody to do it');
select pg_temp.is_told('no_worker', 'alarm', 3, 'lakequeue worker', 'three tasks wait');
select matches(h.words, 'sweep_leases', 'nobody has swept yet, and it matters') from health() h where h.name = 'sweep_age';
select sweep_leases() \gset
select worker_heartbeat('w') \gset
select is(pg_temp.told(), '{}', 'a worker lives and sweeps');
select is(h.alarms_at, 600::numeric, 'somebody should sweep while something waits') from health() h where h.name = 'sweep_age';
select advance('119 s') \gset
select worker_heartbeat('w') \gset
select pg_temp.is_told('sweep_age', 'ok', 119, '', 'not for two minutes');
select advance('1 s') \gset
select pg_temp.is_told('sweep_age', 'warning', 120, 'sweep_leases', 'for two minutes');
select advance('8 min') \gset
select worker_heartbeat('w') \gset
select pg_temp.is_told('sweep_age', 'alarm', 600, 'sweep_leases', 'for ten');
select sweep_leases() \gset
select pg_temp.is_told('sweep_age', 'ok', 0, '', 'it sweeps again');

-- --- the oldest waiting task ---------------------------------------------------------------------------------------

select advance('5 min') \gset
select worker_heartbeat('w'), sweep_leases() \gset
select pg_temp.is_told('oldest_waiting', 'warning', 900, 'log of its workers', 'a quarter of an hour');
select is(pg_temp.told(), '{"oldest_waiting warning"}', 'which is all there is');
select is(pg_temp.told(false), '{}', 'and is left to needs_attention where that is shown as well');
savepoint held;
select pause_agent(:'agent', 'lunch') \gset
select pg_temp.is_told('oldest_waiting', 'ok', 0, '', 'a paused agent');
rollback to held;
update model_endpoints e set cooldown_until = _now() + interval '1 min' where e.name = :'agent';
select pg_temp.is_told('oldest_waiting', 'ok', 0, '', 'an endpoint that cools down');
rollback to held;
select configure_agent(:'agent', max_concurrent_tasks => 1) \gset
select d.attempt_id as full from dequeue_tasks('w', 1, array[:'agent']) d \gset
select pg_temp.is_told('oldest_waiting', 'ok', 0, '', 'a limit that is full');
select report(:full, 'success', '1') \gset
select pg_temp.is_told('oldest_waiting', 'warning', 900, '', 'and is not any more');
rollback to held;
select advance('45 min') \gset
select pg_temp.is_told('oldest_waiting', 'alarm', 3600, :'agent', 'an hour');
select pg_try_advisory_lock(_lock_class(), 4711) \gset
select doesnt_match(h.words, 'process', 'our own lock is none of somebody else''s') from health() h where h.name = 'oldest_waiting';
select pg_advisory_unlock(_lock_class(), 4711) \gset
rollback to held;

-- --- leases, adoption, retries, runs -------------------------------------------------------------------------------

select d.attempt_id as a, d.task_id as task from dequeue_tasks('w', 1, array[:'agent']) d \gset
select record_runs(array[:a], array[7]) \gset
select advance('11 min') \gset
select worker_heartbeat('w') \gset
select pg_temp.is_told('expired_lease', 'ok', 60, '', 'a lease and its grace have just ended');
select advance('1 min') \gset
select worker_heartbeat('w') \gset
select pg_temp.is_told('expired_lease', 'warning', 120, 'task ' || :task || ' .*sweep_leases', 'and nobody gives the task back');
select advance('8 min') \gset
select pg_temp.is_told('expired_lease', 'alarm', 600, '', 'for ten minutes');
select pg_temp.is_told('unadopted', 'ok', 0, '', 'it had a run');
select sweep_leases() \gset
select pg_temp.is_told('expired_lease', 'ok', 0, '', 'swept');
rollback to held;
select d.attempt_id as a, d.task_id as task from dequeue_tasks('w', 1, array[:'agent']) d \gset
select advance('2 min') \gset
select worker_heartbeat('w') \gset
select pg_temp.is_told('unadopted', 'ok', 0, '', 'its worker lives');
select advance('3 min') \gset
select pg_temp.is_told('unadopted', 'warning', 120, 'task ' || :task || ' .*start a worker', 'two minutes after the minute in which it died');
select advance('8 min') \gset
select pg_temp.is_told('unadopted', 'alarm', 600, '', 'ten');
rollback to held;
select configure_agent(:'agent', max_attempts => 5) \gset
select d.attempt_id as a from dequeue_tasks('w', 1, array[:'agent']) d \gset
select report(:a, 'failure') \gset
select set_clock(t.retry_at + interval '59 s') from tasks t where t.id = task_of(:a) \gset
select pg_temp.is_told('sweep_lag', 'ok', 59, '', 'a retry is due');
select advance('1 s') \gset
select pg_temp.is_told('sweep_lag', 'warning', 60, 'sweep_leases', 'for a minute');
select advance('4 min') \gset
select pg_temp.is_told('sweep_lag', 'alarm', 300, '', 'for five');
rollback to held;
select d.attempt_id as a from dequeue_tasks('w', 1, array[:'agent']) d \gset
select store(:a) \gset
select set_clock(a.presumed_dead_at + interval '1 min') from task_attempts a where a.id = :a \gset
select pg_temp.is_told('sweep_lag', 'warning', 60, '', 'a run is presumed dead, and still counted');
rollback to held;

-- --- what needs_attention tells -------------------------------------------------------------------------------------

select report(d.attempt_id, 'permanent_failure') from dequeue_tasks('w', 3, array[:'agent']) d;
select enqueue_task(:'agent', '/' || n) from generate_series(1, 7) n;
select report(d.attempt_id, 'success', '1') from dequeue_tasks('w', 7, array[:'agent']) d;
select pg_temp.is_told('failing', 'alarm', 0.3, 'agents => array\[''' || :'agent' || '''\]', 'three of ten failed');
update agents g set paused_at = _now(), paused_by = 'breaker', pause_reason = 'ten in a row' where g.name = :'agent';
select pg_temp.is_told('breaker', 'alarm', 1, 'ten in a row.*resume_agent\(''' || :'agent' || '''\)', 'the breaker has paused it');
select _log_event('sweep_error', 1, reason => 'boom') \gset
select pg_temp.is_told('sweep_errors', 'alarm', 1, 'boom.*list_events', 'a row that could not be swept');
update workers w set heartbeat_at = _now() - interval '2 min', stopped_at = _now() where w.name = 'w';
select pg_temp.is_told('worker_lost', 'warning', 1, '^w ended without a word', 'a worker was lost');
rollback to held;

-- --- ledger and costs ------------------------------------------------------------------------------------------------

delete from task_deltas;
select fold_rollups() \gset
select pg_temp.is_told('unfolded_deltas', 'ok', 0, '', 'all is folded');
insert into task_deltas (agent_id, customer, tasks, to_status)
select g.id, '', 0, 'enqueued' from agents g, generate_series(1, 1000) where g.name = :'agent';
select advance('2 hours') \gset
select pg_temp.is_told('rollup_lag', 'ok', 7200, '', 'a thousand deltas cost nothing');
select pg_temp.is_told('unfolded_deltas', 'ok', 1000, '', 'they are counted');
insert into task_deltas (agent_id, customer, tasks, to_status) select g.id, '', 0, 'enqueued' from agents g where g.name = :'agent';
select pg_temp.is_told('rollup_lag', 'alarm', 7200, 'fold_rollups', 'more do');
select advance('-1 hour -1 min') \gset
select pg_temp.is_told('rollup_lag', 'warning', 3540, 'fold_rollups', 'for less than an hour');
insert into task_deltas (id, agent_id, customer, tasks, to_status) overriding system value
select n.id + d.last - 1001, g.id, '', 0, 'enqueued'
from agents g, (select max(d.id) as last from task_deltas d) d, (values (20000), (200000)) n(id) where g.name = :'agent';
select pg_temp.is_told('unfolded_deltas', 'alarm', 200000, 'fold_rollups', 'two hundred thousand');
delete from task_deltas d where d.id = (select max(m.id) from task_deltas m);
select pg_temp.is_told('unfolded_deltas', 'warning', 20000, 'fold_rollups', 'twenty thousand');
rollback to held;
select report(d.attempt_id, 'success', '1') from dequeue_tasks('w', 1, array[:'agent']) d;
select fold_rollups() \gset
select pg_temp.is_told('rollup_difference', 'ok', 0, '', 'hours add up to the day');
update hourly_rollups h set tasks = h.tasks + 2 from agents g where g.id = h.agent_id and g.name = :'agent';
select pg_temp.is_told('rollup_difference', 'warning', 2, 'by the hour', 'they do not');
select advance('2 days') \gset
select pg_temp.is_told('rollup_difference', 'ok', 0, '', 'of days long gone nothing is said');
rollback to held;
select enqueue_task(:'agent', '/' || n) from generate_series(1, 20) n;
select report(d.attempt_id, 'success', '1') from dequeue_tasks('w', 20, array[:'agent']) d;
select report(d.attempt_id, 'success', '1', input_tokens => 1) from dequeue_tasks('w', 3, array[:'agent']) d;
select advance('299 s') \gset
select pg_temp.is_told('unsettled', 'ok', 0, '', 'usage may yet come');
select advance('1 s') \gset
select pg_temp.is_told('unsettled', 'warning', 20, 'lakequeue doctor', 'none has come');
select advance('55 min') \gset
select pg_temp.is_told('unsettled', 'ok', 0, '', 'of what ended an hour ago nothing is said');
rollback to held;
select job_run(77), begin_compute_fetch('ops') \gset
select advance('59 s') \gset
select pg_temp.is_told('compute_fetch', 'ok', 59, '', 'billing is being asked');
select advance('1 s') \gset
select pg_temp.is_told('compute_fetch', 'warning', 60, 'Load compute cost', 'by somebody who is no more');
rollback to held;

-- --- copies ------------------------------------------------------------------------------------------------------------

select check_home('projects/p/branches/production') \gset
select pg_temp.is_told('copy', 'ok', 0, '', 'it is at home, whatever the branch');
update installation set home = replace(home, 'database ', 'database 1');
select pg_temp.is_told('copy', 'alarm', 1, 'quiesce.*move_here', 'it is a copy');
rollback to held;

set session authorization test_worker;
select throws_ok('select lakequeue._queue_checks(true)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
