-- sweep_leases: expired leases, due retries, runs presumed dead and silent workers, a batch of each; safe at any time.
-- How an expired attempt ends is in test__expire_leases.sql.
begin;
\ir scenarios.sql
select plan(58);

create function pg_temp.swept(batch_size integer default 50)
returns text language sql
as $$ select format('%s %s %s %s', s.expired, s.retries, s.runs_ended, s.workers_lost) from lakequeue.sweep_leases(batch_size) s $$;

select is(u.done_at, null, 'nobody has swept yet') from upkeep u where u.kind = 'sweep';
select is(pg_temp.swept(), '0 0 0 0', 'nothing to do');
select is(u.done_at, _now(), 'but that it was done is noted') from upkeep u where u.kind = 'sweep';
select says_and_changes_nothing('select pg_temp.swept()', '0 0 0 0', 'once in half a minute');

-- --- expired leases ---------------------------------------------------------------------------------------------

select start() as a \gset
select advance('10 min') \gset
select is(pg_temp.swept(), '1 0 0 0', 'a lease that has run out');
select is(states(:a), 'enqueued expired', 'its task is back in the queue');
select says_and_changes_nothing('select pg_temp.swept()', '0 0 0 0', 'a second sweep finds nothing');

-- --- due retries keep their place (rule 2) ----------------------------------------------------------------------

select task_of(:a) as old \gset
select agent_of(:old) as agent \gset
select claim(:old) as b \gset
select advance('1 min') \gset
select enqueue_task(:'agent', '/newer.pdf') as newer \gset
select enqueue_task(:'agent', '/urgent.pdf', priority => 9) as urgent \gset
select report(:b, 'failure') \gset
select t.retry_at as due from tasks t where t.id = :old \gset
select set_clock(:'due'::timestamptz - interval '1 us') \gset
select sweep_leases(); -- the first one learns something
select says_and_changes_nothing('select pg_temp.swept()', '0 0 0 0', 'a retry waits to its time');
savepoint not_yet;
select results_eq(format('select task_id from dequeue_tasks(''w2'', 10, array[%L])', :'agent'),
                  format('values (%s::bigint), (%s)', :urgent, :newer), 'nobody gets it before');
rollback to not_yet;
select advance('1 us') \gset
select is(pg_temp.swept(), '0 1 0 0', 'then it is due');
select task_is(:old, '{"status": "enqueued", "retry_at": null, "failures": 2}', 'and claimable');
select results_eq(format('select task_id from dequeue_tasks(''w2'', 10, array[%L])', :'agent'),
                  format('values (%s::bigint), (%s), (%s)', :urgent, :old, :newer), 'at its old place: before what came later, after what is urgent');
select says_and_changes_nothing('select pg_temp.swept()', '0 0 0 0', 'a second sweep finds nothing');

-- --- runs presumed dead ---------------------------------------------------------------------------------------------

select attempt_in('superseded') as lost \gset
select start() as unconfirmed \gset
select store(:unconfirmed) \gset
select sweep_leases(1000) \gset
select a.presumed_dead_at as due from task_attempts a where a.id = :lost \gset
select set_clock(:'due'::timestamptz - interval '1 us') \gset
select attempt_is(:lost, '{"run_ended_at": null}', 'a run that was overtaken counts') from sweep_leases(1000);
select advance('1 us') \gset
select is(runs_ended > 0, true, 'until it is presumed dead') from sweep_leases(1000);
select attempt_is(:lost, jsonb_build_object('status', 'superseded', 'run_ended_at', _now()), 'that is noted');
select attempt_is(:unconfirmed, jsonb_build_object('status', 'succeeded', 'run_ended_at', _now(), 'reported_at', null),
                  'so is the run whose agent never confirmed its result');
select is(report(:unconfirmed, 'success'), 'accepted', 'who may do so later');
select says_and_changes_nothing('select pg_temp.swept(1000)', '0 0 0 0', 'a second sweep finds nothing');

-- --- silent workers ---------------------------------------------------------------------------------------------------

select worker_heartbeat('silent') \gset
select worker_heartbeat('stopped', stopping => true) \gset
select advance('30 s') \gset
select worker_heartbeat('alive') \gset
select advance('30 s') \gset
select is(pg_temp.swept(1000), '0 0 0 0', 'a minute of silence is allowed');
select advance('1 us') \gset
select is(pg_temp.swept(1000), '0 0 0 1', 'more is not');
select results_eq('select name, stopped_at = _now() from workers order by name',
                  'values (''alive'', null), (''silent'', true), (''stopped'', false)', 'the silent one is taken for dead, no other');
select says_and_changes_nothing('select pg_temp.swept(1000)', '0 0 0 0', 'a second sweep finds nothing');
select worker_heartbeat('silent') \gset
select is(w.stopped_at, null, 'if it speaks again it lives') from workers w where w.name = 'silent';

-- --- a batch of each -----------------------------------------------------------------------------------------------------

create temporary table first as select start() as attempt from generate_series(1, 3);
select advance('10 min') \gset
select sweep_leases(1000) \gset
create temporary table overtaken as select claim(task_of(f.attempt), 'w2') as attempt from first f;
select count(store(f.attempt)) from first f \gset
select count(report(start(), 'failure')) from generate_series(1, 3) \gset
select count(start()) from generate_series(1, 3) \gset
select worker_heartbeat('alive') \gset
select advance('1 hour') \gset
select is(pg_temp.swept(2), '2 2 2 1', 'no more than a batch of each kind');
select is(pg_temp.swept(2) like '% 1 1 0', true, 'the rest in the next');
select sweep_leases(1000) \gset
select is(pg_temp.swept(2), '0 0 0 0', 'until there is none');
select is_empty('select from overtaken o join task_attempts a on a.id = o.attempt where a.run_ended_at is null', 'none of the runs counts any more');
select is_empty('select from tasks t where t.retry_at is not null or t.status = ''processing''', 'no retry waits, nothing is processing');

-- --- from which times on it looks (rule 16) -------------------------------------------------------------------------------

select advance('1 hour') \gset
select sweep_leases(1000) \gset
create temporary table late as select new_task() as soon, new_task() as later;
update tasks t set retry_at = _now() - interval '10 s' from late l where t.id = l.soon;
update tasks t set retry_at = _now() - interval '10 s 1 us' from late l where t.id = l.later;
select is(pg_temp.swept(), '0 1 0 0', 'a retry that was committed within ten seconds after its time is found at once');
select task_is(soon, '{"retry_at": null}', 'and claimable') from late;
select says_and_changes_nothing('select pg_temp.swept()', '0 0 0 0', 'one that lay open for longer is not');
select advance('5 min') \gset
select is(pg_temp.swept(), '0 0 0 0', 'it waits');
select advance('1 us') \gset
select is(pg_temp.swept(), '0 1 0 0', 'until all is looked at, after five minutes');
select task_is(later, '{"retry_at": null}', 'it is never forgotten') from late;

create temporary table waiting as select new_task() as id, n from generate_series(1, 5) n;
update tasks t set retry_at = _now() + w.n * interval '50 seconds' from waiting w where t.id = w.id;
select advance('260 s') \gset
select is(string_agg(pg_temp.swept(2), ', '), '0 2 0 0, 0 2 0 0, 0 1 0 0, 0 0 0 0', 'batch by batch it comes to all, however long nobody has swept')
from generate_series(1, 4);
update tasks t set retry_at = _now() - interval '2 minutes' from waiting w where t.id = w.id and w.n = 1;
select says_and_changes_nothing('select pg_temp.swept()', '0 0 0 0', '(one that is passed)');
select advance('-30 min') \gset
update tasks t set retry_at = _now() from waiting w where t.id = w.id and w.n = 2;
select is(pg_temp.swept(), '0 1 0 0', 'when the clock goes back, all is looked at');
select advance('30 min') \gset
select is(pg_temp.swept(), '0 1 0 0', 'also when it goes on');

create function pg_temp.end_calls(ago interval[]) returns void language sql as $$
  insert into lakequeue.model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at, ended_at)
  select -1, gen_random_uuid(), e.id, 1, 5, 1, 1, lakequeue._now(), lakequeue._now(), lakequeue._now(), lakequeue._now() - a.ago
  from (select min(m.id) as id from lakequeue.model_endpoints m) e, unnest(ago) a(ago)
$$;
create function pg_temp.ended() returns interval[] language sql as $$
  select array_agg(lakequeue._now() - c.ended_at order by c.ended_at) from lakequeue.model_calls c
$$;
select pg_temp.end_calls('{0, 1 us, 1 minute, 2 minutes 1 us}');
select advance('2 min') \gset
select sweep_leases() \gset
select is(pg_temp.ended(), '{4 minutes 1 us,2 minutes}'::interval[], 'model calls that ended two minutes ago are forgotten, but for what lay open');
select advance('5 min 1 us') \gset
select sweep_leases() \gset
select is(pg_temp.ended(), null, 'which is later');
select pg_temp.end_calls(array(select n * interval '1 ms' from generate_series(1, 41) n));
select advance('2 min') \gset
select sweep_leases(1) \gset
select is(cardinality(pg_temp.ended()), 21, '20 for each of a batch');
select sweep_leases(1), sweep_leases(1) \gset
select is(pg_temp.ended(), null, 'then those that are left');
select is((select max(no) - min(no) from sweep_books), 0::bigint, 'the book is one row');

-- --- refused, and for whom --------------------------------------------------------------------------------------------------

select refused(format('select sweep_leases(%s)', size), 'LQ400', 'batch_size ' || size)
from unnest(array['null', '0', '-1', '1001', '2147483647', '-2147483648']) size;
set session authorization test_worker;
select is(pg_temp.swept(1) || pg_temp.swept(1000), '0 0 0 00 0 0 0', 'a worker calls it, with a batch of 1 or of 1,000');
set session authorization test_owner;
select not_for(login, 'select lakequeue.sweep_leases()')
from unnest(array['test_app', 'test_web', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
