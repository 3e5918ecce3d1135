-- attempts_to_settle: ended attempts of the last hour whose usage no trace has settled, newest first.
begin;
\ir scenarios.sql
select plan(33);

create function pg_temp.listed(attempt bigint)
returns boolean language sql
as $$ select exists (select from lakequeue.attempts_to_settle(1000) s where s.attempt_id = attempt) $$;

select start() as a \gset
select ok(not pg_temp.listed(:a), 'an attempt that runs is not settled yet');
select report(:a, 'success', '1', input_tokens => 5, output_tokens => 5, usage_complete => true, trace_id => 'tr-a') \gset
select row_is(to_jsonb(s), jsonb_build_object('attempt_id', :a, 'task_id', task_of(:a), 'run_key', (select t.run_key from task_attempts t where t.id = :a), 'trace_id', 'tr-a', 'ended_at', _now()),
              'one that ended is, although its agent told what it used')
from (select null) one left join attempts_to_settle() s on true;
select advance('1 hour' - interval '1 us') \gset
select ok(pg_temp.listed(:a), 'for an hour');
select advance('1 us') \gset
select ok(not pg_temp.listed(:a), 'and no longer');

-- however it ended
create temporary table ended as
select s.situation, attempt_in(s.situation) as attempt
from unnest(array['result stored', 'reported failure', 'reported rate limit', 'reported that it stopped', 'run died, waiting', 'expired, enqueued', 'superseded']) s(situation);
select ok(pg_temp.listed(e.attempt), e.situation) from ended e;

-- what settles it
select start() as b \gset
select report(:b, 'failure') \gset
select record_usage(:b, 1, 1, source => 'callback') \gset
select ok(pg_temp.listed(:b), 'a callback does not settle');
savepoint unsettled;
select record_usage(:b, 1, 1) \gset
select ok(not pg_temp.listed(:b), 'a trace does');
rollback to unsettled;
select record_usage(:b, null, null, null, null, false) \gset
select ok(pg_temp.listed(:b), 'a trace that knows nothing does not');

-- newest first, no more than a batch
create temporary table ordered (attempt bigint);
do $$
begin
  for v_turn in 1..3 loop
    perform advance('2 hours') where v_turn = 1;
    perform advance('1 min');
    insert into ordered select start();
    perform report((select max(o.attempt) from ordered o), 'failure');
  end loop;
end $$;
select results_eq('select attempt_id from attempts_to_settle(2)', 'select o.attempt from ordered o order by o.attempt desc limit 2', 'newest first, no more than a batch');
select is(count(*), 3::bigint, 'all three in a larger one') from attempts_to_settle(1000);
select is(count(*), 1::bigint, 'only what ended so recently, if that is asked') from attempts_to_settle(1000, '1 min');
select is(count(*), 3::bigint, 'an hour at most') from attempts_to_settle(1000, '1 day');

-- refused, and for whom
select refused(format('select attempts_to_settle(%s)', size), 'LQ400', 'batch_size ' || size) from unnest(array['null', '0', '-1', '1001']) size;
select refused(format('select attempts_to_settle(1, %L)', within), 'LQ400', 'ended_within ' || coalesce(within, 'null'))
from unnest(array[null, '0', '-1 hour', '0 days']) within;
set session authorization test_worker;
select is(count(*), 1::bigint, 'a worker calls it') from attempts_to_settle(1);
set session authorization test_owner;
select not_for(login, 'select lakequeue.attempts_to_settle()')
from unnest(array['test_app', 'test_web', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
