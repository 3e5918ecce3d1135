-- What counts against limits (rules 3 and 4): every run that is not known to have ended, whatever became of its
-- attempt; tokens and requests of the last 60 seconds, by the larger of estimate and use until the use is known
-- completely, or call by call; and what is booked for the next minute: of attempts that reserve their calls what runs of
-- their agent use in one (_demand), and the calls that wait.
begin;
select plan(40);

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
  select string_agg(format('%s/%s: %s running, %s', s.endpoint_id, s.agent_id, coalesce(s.used[1], 0), coalesce(trim_scale(s.used[2])::text, '-')), '; '
                    order by s.endpoint_id, s.agent_id)
  into v_counted
  from lakequeue._spending(array[900001, 900002], with_window) s;
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
-- endpoint and agent, used, booked; unknown or nothing: -
create function pg_temp.spent(with_window boolean default true) returns setof text language sql as $$
  select format('%s: %s; %s', s.agent_id,
    (select string_agg(coalesce(trim_scale(u.n)::text, '-'), ' ' order by u.kind) from unnest(s.used) with ordinality u(n, kind)),
    (select string_agg(coalesce(trim_scale(u.n)::text, '-'), ' ' order by u.kind) from unnest(s.booked) with ordinality u(n, kind)))
  from lakequeue._spending(array[900001], with_window) s order by s.agent_id
$$;
select pg_temp.attempt(1, 900001, 900010, 'running', null, null);
select results_eq('select pg_temp.spent()', array['900010: 1 100 70 30 1; 1 100 70 30 1'],
  'an estimate is split by output_share; a run is one request');
select results_eq('select pg_temp.spent(false)', array['900010: 1 - - - -; 1 - - - -'],
  'without the window all but the tasks is unknown, not nothing');
delete from task_attempts where endpoint_id > 900000;
select pg_temp.attempt(1, 900001, 900010, 'running', null, null, 10, 50);
select results_eq('select pg_temp.spent()', array['900010: 1 100 70 50 1; 1 100 70 50 1'], 'each part by the larger of estimate and use');
delete from task_attempts where endpoint_id > 900000;
select pg_temp.attempt(1, 900001, 900010, 'running', null, null, 80, 10);
select results_eq('select pg_temp.spent()', array['900010: 1 100 80 30 1; 1 100 80 30 1'], 'input likewise');
delete from task_attempts where endpoint_id > 900000;
select pg_temp.attempt(1, 900001, 900010, 'running', null, null, 10, 50, true);
select results_eq('select pg_temp.spent()', array['900010: 1 100 70 50 1; 1 100 70 50 1'], 'a run that has said what it used may spend on');
delete from task_attempts where endpoint_id > 900000;
select pg_temp.attempt(1, 900001, 900010, 'succeeded', '1 second', '1 second', 10, 5, true);
select results_eq('select pg_temp.spent()', array['900010: 0 15 10 5 1; 0 15 10 5 1'], 'what ended and is known counts as it was');
delete from task_attempts where endpoint_id > 900000;

-- attempts that reserve their calls
create function pg_temp.reserving(task bigint, started interval, agent integer default 900012, estimate bigint default 100) returns bigint language sql as $$
  insert into lakequeue.task_attempts (task_id, number, agent_id, endpoint_id, estimated_tokens, worker, status, started_at, reserves_calls)
  values (-task, 1, agent, 900001, estimate, 'w', 'running', lakequeue._now() - started, true)
  returning id
$$;
create function pg_temp.call(attempt bigint, input bigint, output bigint, granted interval, ended interval, seen interval default '0') returns void language sql as $$
  insert into lakequeue.model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at, ended_at)
  values (attempt, gen_random_uuid(), 900001, 900012, 5, input, output, lakequeue._now() - interval '1 hour', lakequeue._now() - seen,
          lakequeue._now() - granted, lakequeue._now() - ended)
$$;
create temporary table young as select pg_temp.reserving(1, '10 seconds') as id;
select results_eq('select pg_temp.spent()', array['900012: 1 0 0 0 0; 1 300 200 100 5'],
  'a run that reserves its calls is booked by the pace of its agent''s runs, and has used nothing');
select pg_temp.call(id, 250, 20, '5 seconds', null, seen => '1 hour'), pg_temp.call(id, 30, 20, '5 seconds', '4 seconds'),
       pg_temp.call(id, 500, 500, '2 minutes', '60 seconds'), pg_temp.call(id, 1, 2, '2 minutes', '59.999 seconds') from young;
select results_eq('select pg_temp.spent()', array['900012: 1 323 281 42 3; 1 300 200 100 5'],
  'its calls under way, or ended in the last minute, are used; booked it is as before, whatever it calls for');
select pg_temp.call(id, 7, 9, null, null, '9.999 seconds'), pg_temp.call(id, 500, 500, null, null, '10 seconds') from young;
select results_eq('select pg_temp.spent()', array['900012: 1 323 281 42 3; 1 316 207 109 6'],
  'a call that waits is booked besides, not used, as long as it is asked for');
delete from model_calls where granted_at is null;
update task_attempts set started_at = _now() - interval '1 hour' where id = (select id from young);
select results_eq('select pg_temp.spent()', array['900012: 1 323 281 42 3; 1 300 200 100 5'], 'however long it has run');
select pg_temp.reserving(2, '0', estimate => 7), pg_temp.reserving(3, '0', estimate => 100), pg_temp.reserving(4, '1 day');
select results_eq('select pg_temp.spent()', array['900012: 4 323 281 42 3; 4 1200 800 400 20'], 'every run, whatever its estimate');
update agents set max_output_tpm = 90 where id = 900012;
update model_endpoints set max_rpm = 4 where id = 900001;
select results_eq('select pg_temp.spent()', array['900012: 4 323 281 42 3; 4 1200 800 360 16'], 'but no run as more than a limit lets it');
update model_endpoints set max_rpm = null where id = 900001;
update agents set max_output_tpm = null, model_endpoint_id = 900002 where id = 900012;
update model_endpoints set max_rpm = case id when 900001 then 3 else 1 end where id in (900001, 900002);
select results_eq('select pg_temp.spent()', array['900012: 4 323 281 42 3; 4 1200 800 400 12'], 'a limit of the endpoint where it runs, also if its agent has moved');
update model_endpoints set max_rpm = null where id in (900001, 900002);
update agents set model_endpoint_id = 900001 where id = 900012;
update agents set run_input_tpm = null, run_output_tpm = null, run_rpm = null where id = 900012;
select results_eq('select pg_temp.spent()', array['900012: 4 323 281 42 3; 4 307 214 93 4'], 'as long as no pace is known, by its own estimate');
update agents set reserves_calls = false, run_input_tpm = 200, run_output_tpm = 100, run_rpm = 5 where id = 900012;
select results_eq('select pg_temp.spent()', array['900012: 4 323 281 42 3; 4 307 214 93 4'],
  'or where its agent does not reserve any more; what the run itself does decides what it counts');
update agents set reserves_calls = true where id = 900012;
delete from task_attempts where task_id < -1 and endpoint_id = 900001;
select pg_temp.reserving(5, '0', 900010);
select results_eq('select pg_temp.spent()', array['900010: 1 0 0 0 0; 1 100 70 30 1', '900012: 1 323 281 42 3; 1 300 200 100 5'], 'each agent by itself');
delete from task_attempts where agent_id = 900010;
select pg_temp.attempt(6, 900001, 900012, 'running', null, null, 90, 40), pg_temp.attempt(7, 900001, 900012, 'failed', '1 second', '1 second');
select results_eq('select pg_temp.spent()', array['900012: 2 553 441 112 5; 2 530 360 170 7'],
  'attempts of one agent that reserve their calls and such that do not are counted side by side');
delete from task_attempts where task_id in (-6, -7);
update task_attempts set status = 'failed', ended_at = _now(), run_ended_at = _now() where id = (select id from young);
select results_eq('select pg_temp.spent()', array['900012: 0 323 281 42 3; - - - - -'],
  'when it has ended nothing is booked; its calls stay in the window');

select is((select trim_scale(s.used[2]) from _spending(array[900001], true, _now() + interval '30 seconds') s), 320::numeric, 'as of a given time the window is another');
select is((select trim_scale(s.used[2]) from _spending(array[900001], true, _now()) s), 323::numeric, 'and now it is this');

set session authorization test_worker;
select throws_ok('select * from lakequeue._spending(array[1], true)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
