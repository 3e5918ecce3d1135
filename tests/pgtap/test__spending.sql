-- What counts against limits (rules 3 and 4): every run that is not known to have ended, whatever became of its
-- attempt; tokens and requests of the last 60 seconds, by the larger of estimate and use until the use is known
-- completely, or call by call; and what is booked for the next minute.
begin;
select plan(28);

select set_clock('2026-03-01 09:00+00');
insert into model_endpoints (id, name) overriding system value
select n, 'endpoint ' || n from generate_series(900001, 900003) n;
insert into agents (id, name, model_endpoint_id, output_share, reserves_calls, run_input_tpm, run_output_tpm, run_rpm) overriding system value
select n, 'agent ' || n, 900001, 0.3, n = 900012, 200, 100, 5 from generate_series(900010, 900012) n;
-- each attempt has a task of its own
create function pg_temp.attempt(
  task bigint, endpoint integer, agent integer, status attempt_status, ended interval, run_ended interval,
  input bigint default null, output bigint default null, complete boolean default false)
returns void language sql as $$
  insert into lakequeue.task_attempts (
    task_id, number, agent_id, endpoint_id, estimated_tokens, worker, status, started_at, ended_at, run_ended_at,
    presumed_dead_at, input_tokens, output_tokens, usage_complete, usage_source)
  values (-task, 1, agent, endpoint, 100, 'w', status, lakequeue._now() - interval '2 hours', lakequeue._now() - ended,
          lakequeue._now() - run_ended, lakequeue._now() + interval '1 hour', input, output, complete, case when input is not null then 'callback' end)
$$;
-- what a set of attempts counts, and then it is gone
create function pg_temp.counted(with_window boolean default true) returns text language plpgsql as $$
declare v_counted text;
begin
  select string_agg(format('%s/%s: %s running, %s', k.endpoint_id, k.agent_id, k.kinds ->> 'tasks', coalesce(k.kinds ->> 'tokens', '-')), '; '
                    order by k.endpoint_id, k.agent_id)
  into v_counted
  from (select s.endpoint_id, s.agent_id, jsonb_object_agg(s.kind, trim_scale(s.used)) as kinds
        from lakequeue._spending(array[900001, 900002], with_window) s group by s.endpoint_id, s.agent_id) k;
  delete from lakequeue.task_attempts a where a.endpoint_id > 900000;
  return v_counted;
end $$;

select is(pg_temp.counted(), null, 'nothing spends where nothing runs');

select pg_temp.attempt(1, 900001, 900010, 'running', null, null);
select is(pg_temp.counted(), '900001/900010: 1 running, 100', 'a running attempt counts its estimate');
select pg_temp.attempt(1, 900001, 900010, 'running', null, null, 70, 20);
select is(pg_temp.counted(), '900001/900010: 1 running, 100', 'also if it used less so far');
select pg_temp.attempt(1, 900001, 900010, 'running', null, null, 70, 60);
select is(pg_temp.counted(), '900001/900010: 1 running, 130', 'and what it used if that is more');
select pg_temp.attempt(1, 900001, 900010, 'expired', '1 hour', null);
select is(pg_temp.counted(), '900001/900010: 1 running, 100', 'a run that outlives its expired attempt counts');
select pg_temp.attempt(1, 900001, 900010, 'superseded', '1 hour', null, 170, 30);
select is(pg_temp.counted(), '900001/900010: 1 running, 200', 'or its superseded one');
select pg_temp.attempt(1, 900001, 900010, 'succeeded', '1 second', null, 20, 10, true);
select is(pg_temp.counted(), '900001/900010: 1 running, 100', 'or a succeeded one, by its estimate while it may spend on');

select pg_temp.attempt(1, 900001, 900010, 'succeeded', '59.999999 seconds', '59.999999 seconds', 20, 15, true);
select is(pg_temp.counted(), '900001/900010: 0 running, 35', 'one that ended in the last minute counts what it used, if that is complete');
select pg_temp.attempt(1, 900001, 900010, 'succeeded', '59 seconds', '59 seconds', 500, 1, true);
select is(pg_temp.counted(), '900001/900010: 0 running, 501', 'also if that is more than the estimate');
select pg_temp.attempt(1, 900001, 900010, 'failed', '59 seconds', '59 seconds', 0, 0, true);
select is(pg_temp.counted(), '900001/900010: 0 running, 0', 'or nothing at all');
select pg_temp.attempt(1, 900001, 900010, 'failed', '59 seconds', '59 seconds', 20, 15);
select is(pg_temp.counted(), '900001/900010: 0 running, 100', 'incomplete use counts the estimate');
select pg_temp.attempt(1, 900001, 900010, 'failed', '59 seconds', '59 seconds', 120, 15);
select is(pg_temp.counted(), '900001/900010: 0 running, 135', 'or itself if it is more');
select pg_temp.attempt(1, 900001, 900010, 'cancelled', '59 seconds', '59 seconds');
select is(pg_temp.counted(), '900001/900010: 0 running, 100', 'unknown use counts the estimate');
select pg_temp.attempt(1, 900001, 900010, 'expired', '1 hour', '10 seconds');
select is(pg_temp.counted(), '900001/900010: 0 running, 100', 'the minute begins when the run ended, not the attempt');
select pg_temp.attempt(1, 900001, 900010, 'succeeded', '60.000001 seconds', '60.000001 seconds', 20, 15, true);
select is(pg_temp.counted(), null, 'after the minute nothing counts any more');

select pg_temp.attempt(1, 900001, 900010, 'running', null, null), pg_temp.attempt(2, 900001, 900010, 'running', null, null, 300, 0),
       pg_temp.attempt(3, 900001, 900010, 'failed', '1 second', '1 second'), pg_temp.attempt(4, 900001, 900011, 'running', null, null),
       pg_temp.attempt(5, 900002, 900010, 'running', null, null), pg_temp.attempt(6, 900003, 900010, 'running', null, null);
select is(pg_temp.counted(), '900001/900010: 2 running, 500; 900001/900011: 1 running, 100; 900002/900010: 1 running, 100',
  'it is told per endpoint and agent, for the endpoints asked for');
select pg_temp.attempt(1, 900001, 900010, 'running', null, null),
       pg_temp.attempt(2, 900001, 900010, 'succeeded', '59 seconds', '59 seconds', 20, 15, true);
select is(pg_temp.counted(with_window => false), '900001/900010: 1 running, -', 'without the window only the places are told');
select is((select count(*) from _spending('{}', true)), 0::bigint, 'no endpoints, no rows');
select is((select count(*) from _spending(null, true)), 0::bigint, 'neither for null');

-- --- kinds, and what is booked -------------------------------------------------------------------
create function pg_temp.kinds() returns table (kind text, used numeric, booked numeric) language sql as $$
  select s.kind, trim_scale(s.used), trim_scale(s.booked) from lakequeue._spending(array[900001], true) s
  order by array_position(lakequeue._kinds(), s.kind)
$$;
select pg_temp.attempt(1, 900001, 900010, 'running', null, null);
select results_eq('select * from pg_temp.kinds()',
  $$values ('tasks', 1::numeric, 1::numeric), ('tokens', 100, 100), ('input_tokens', 70, 70), ('output_tokens', 30, 30), ('requests', 1, 1)$$,
  'an estimate is split by output_share; a run is one request');
delete from task_attempts where endpoint_id > 900000;
select pg_temp.attempt(1, 900001, 900010, 'running', null, null, 10, 50);
select results_eq('select * from pg_temp.kinds()',
  $$values ('tasks', 1::numeric, 1::numeric), ('tokens', 100, 100), ('input_tokens', 70, 70), ('output_tokens', 50, 50), ('requests', 1, 1)$$,
  'each part by the larger of estimate and use');
delete from task_attempts where endpoint_id > 900000;
select pg_temp.attempt(1, 900001, 900010, 'succeeded', '1 second', '1 second', 10, 5, true);
select results_eq('select * from pg_temp.kinds()',
  $$values ('tasks', 0::numeric, 0::numeric), ('tokens', 15, 15), ('input_tokens', 10, 10), ('output_tokens', 5, 5), ('requests', 1, 1)$$,
  'what ended and is known counts as it was');
delete from task_attempts where endpoint_id > 900000;

-- attempts that reserve their calls
create function pg_temp.reserving(task bigint, started interval, ended interval default null) returns bigint language sql as $$
  insert into lakequeue.task_attempts (task_id, number, agent_id, endpoint_id, estimated_tokens, worker, status, started_at, ended_at, run_ended_at, reserves_calls)
  values (-task, 1, 900012, 900001, 100, 'w', case when ended is null then 'running' else 'failed' end::lakequeue.attempt_status,
          lakequeue._now() - started, lakequeue._now() - ended, lakequeue._now() - ended, true)
  returning id
$$;
create function pg_temp.call(attempt bigint, input bigint, output bigint, granted interval, ended interval, seen interval default '0') returns void language sql as $$
  insert into lakequeue.model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at, ended_at)
  values (attempt, gen_random_uuid(), 900001, 900012, 5, input, output, lakequeue._now() - interval '1 hour', lakequeue._now() - seen,
          lakequeue._now() - granted, lakequeue._now() - ended)
$$;
create temporary table young as select pg_temp.reserving(1, '10 seconds') as id;
select results_eq('select * from pg_temp.kinds()',
  $$values ('tasks', 1::numeric, 1::numeric), ('tokens', 0, 300), ('input_tokens', 0, 200), ('output_tokens', 0, 100), ('requests', 0, 5)$$,
  'a young run that reserves its calls is booked by the pace of its agent''s runs, and has used nothing');
select pg_temp.call(id, 250, 20, '5 seconds', null), pg_temp.call(id, 30, 20, '5 seconds', '4 seconds'),
       pg_temp.call(id, 500, 500, '2 minutes', '60 seconds'), pg_temp.call(id, 1, 2, '2 minutes', '59.999 seconds') from young;
select results_eq('select * from pg_temp.kinds()',
  $$values ('tasks', 1::numeric, 1::numeric), ('tokens', 323, 323), ('input_tokens', 281, 281), ('output_tokens', 42, 100), ('requests', 3, 5)$$,
  'its calls under way, or ended in the last minute, are used; booked is the larger of each kind');
select pg_temp.call(id, 7, 9, null, null, '9 seconds'), pg_temp.call(id, 500, 500, null, null, '10 seconds') from young;
select results_eq('select * from pg_temp.kinds()',
  $$values ('tasks', 1::numeric, 1::numeric), ('tokens', 323, 339), ('input_tokens', 281, 288), ('output_tokens', 42, 100), ('requests', 3, 5)$$,
  'a call that waits is booked, not used, as long as it is asked for');
update task_attempts set started_at = _now() - interval '61 seconds' where id = (select id from young);
select results_eq('select * from pg_temp.kinds()',
  $$values ('tasks', 1::numeric, 1::numeric), ('tokens', 323, 339), ('input_tokens', 281, 288), ('output_tokens', 42, 51), ('requests', 3, 4)$$,
  'after its first minute a run is booked by its calls alone');
update task_attempts set status = 'failed', ended_at = _now(), run_ended_at = _now() where id = (select id from young);
select results_eq('select * from pg_temp.kinds()',
  $$values ('tasks', 0::numeric, 0::numeric), ('tokens', 323, 0), ('input_tokens', 281, 0), ('output_tokens', 42, 0), ('requests', 3, 0)$$,
  'when it has ended nothing is booked; its calls stay in the window');

set session authorization test_worker;
select throws_ok('select * from lakequeue._spending(array[1], true)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
