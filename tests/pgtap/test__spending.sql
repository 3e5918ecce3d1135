-- What counts against limits (rules 3 and 4a): every run that is not known to have ended, whatever became of its
-- attempt; tokens of the last 60 seconds, by the larger of estimate and use until the use is known completely.
begin;
select plan(20);

select set_clock('2026-03-01 09:00+00');
-- endpoints 900001 to 900003 and agents 10, 11 exist nowhere else; each attempt has a task of its own
create function pg_temp.attempt(
  task bigint, endpoint integer, agent integer, status attempt_status, ended interval, run_ended interval,
  input bigint default null, output bigint default null, complete boolean default false)
returns void language sql as $$
  insert into lakequeue.task_attempts (
    task_id, number, agent_id, endpoint_id, estimated_tokens, worker, status, started_at, ended_at, run_ended_at,
    presumed_dead_at, input_tokens, output_tokens, usage_complete, usage_source)
  values (-task, 1, agent, endpoint, 100, 'w', status, lakequeue._now() - interval '2 hours', lakequeue._now() - ended,
          lakequeue._now() - run_ended, case when ended is not null and run_ended is null then lakequeue._now() + '1 hour' end, input, output, complete, case when input is not null then 'callback' end)
$$;
-- what a set of attempts counts, and then it is gone
create function pg_temp.counted(with_window boolean default true) returns text language plpgsql as $$
declare v_counted text;
begin
  select string_agg(format('%s/%s: %s running, %s', s.endpoint_id, s.agent_id, s.running, s.tokens::bigint), '; '
                    order by s.endpoint_id, s.agent_id)
  into v_counted from lakequeue._spending(array[900001, 900002], with_window) s;
  delete from lakequeue.task_attempts a where a.endpoint_id > 900000;
  return v_counted;
end $$;

select is(pg_temp.counted(), null, 'nothing spends where nothing runs');

select pg_temp.attempt(1, 900001, 10, 'running', null, null);
select is(pg_temp.counted(), '900001/10: 1 running, 100', 'a running attempt counts its estimate');
select pg_temp.attempt(1, 900001, 10, 'running', null, null, 70, 20);
select is(pg_temp.counted(), '900001/10: 1 running, 100', 'also if it used less so far');
select pg_temp.attempt(1, 900001, 10, 'running', null, null, 70, 60);
select is(pg_temp.counted(), '900001/10: 1 running, 130', 'and what it used if that is more');
select pg_temp.attempt(1, 900001, 10, 'expired', '1 hour', null);
select is(pg_temp.counted(), '900001/10: 1 running, 100', 'a run that outlives its expired attempt counts');
select pg_temp.attempt(1, 900001, 10, 'superseded', '1 hour', null, 170, 30);
select is(pg_temp.counted(), '900001/10: 1 running, 200', 'or its superseded one');
select pg_temp.attempt(1, 900001, 10, 'succeeded', '1 second', null, 20, 10, true);
select is(pg_temp.counted(), '900001/10: 1 running, 100', 'or a succeeded one, by its estimate while it may spend on');

select pg_temp.attempt(1, 900001, 10, 'succeeded', '59.999999 seconds', '59.999999 seconds', 20, 15, true);
select is(pg_temp.counted(), '900001/10: 0 running, 35', 'one that ended in the last minute counts what it used, if that is complete');
select pg_temp.attempt(1, 900001, 10, 'succeeded', '59 seconds', '59 seconds', 500, 1, true);
select is(pg_temp.counted(), '900001/10: 0 running, 501', 'also if that is more than the estimate');
select pg_temp.attempt(1, 900001, 10, 'failed', '59 seconds', '59 seconds', 0, 0, true);
select is(pg_temp.counted(), '900001/10: 0 running, 0', 'or nothing at all');
select pg_temp.attempt(1, 900001, 10, 'failed', '59 seconds', '59 seconds', 20, 15);
select is(pg_temp.counted(), '900001/10: 0 running, 100', 'incomplete use counts the estimate');
select pg_temp.attempt(1, 900001, 10, 'failed', '59 seconds', '59 seconds', 120, 15);
select is(pg_temp.counted(), '900001/10: 0 running, 135', 'or itself if it is more');
select pg_temp.attempt(1, 900001, 10, 'cancelled', '59 seconds', '59 seconds');
select is(pg_temp.counted(), '900001/10: 0 running, 100', 'unknown use counts the estimate');
select pg_temp.attempt(1, 900001, 10, 'expired', '1 hour', '10 seconds');
select is(pg_temp.counted(), '900001/10: 0 running, 100', 'the minute begins when the run ended, not the attempt');
select pg_temp.attempt(1, 900001, 10, 'succeeded', '60.000001 seconds', '60.000001 seconds', 20, 15, true);
select is(pg_temp.counted(), null, 'after the minute nothing counts any more');

select pg_temp.attempt(1, 900001, 10, 'running', null, null), pg_temp.attempt(2, 900001, 10, 'running', null, null, 300, 0),
       pg_temp.attempt(3, 900001, 10, 'failed', '1 second', '1 second'), pg_temp.attempt(4, 900001, 11, 'running', null, null),
       pg_temp.attempt(5, 900002, 10, 'running', null, null), pg_temp.attempt(6, 900003, 10, 'running', null, null);
select is(pg_temp.counted(), '900001/10: 2 running, 500; 900001/11: 1 running, 100; 900002/10: 1 running, 100',
  'it is told per endpoint and agent, for the endpoints asked for');
select pg_temp.attempt(1, 900001, 10, 'running', null, null),
       pg_temp.attempt(2, 900001, 10, 'succeeded', '59 seconds', '59 seconds', 20, 15, true);
select is(pg_temp.counted(with_window => false), '900001/10: 1 running, 100', 'without the window only what runs is told');
select is((select count(*) from _spending('{}', true)), 0::bigint, 'no endpoints, no rows');
select is((select count(*) from _spending(null, true)), 0::bigint, 'neither for null');

set session authorization test_worker;
select throws_ok('select * from lakequeue._spending(array[1], true)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
