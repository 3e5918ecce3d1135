-- What reports have raised is summed per endpoint and agent, as long as what they raised counts in a window itself:
-- attempts, or the calls of those that reserve them.
begin;
select plan(14);
select set_clock('2026-03-01 09:00+00');
insert into model_endpoints (id, name) overriding system value select n, 'endpoint ' || n from generate_series(900001, 900003) n;
insert into agents (id, name, model_endpoint_id) overriding system value values (900010, '_raised', 900001), (900011, '_raised too', 900001);
create function pg_temp.attempt(task bigint, endpoint integer, agent integer, raised numeric[], run_ended interval default null) returns void language sql as $$
  insert into lakequeue.task_attempts (task_id, number, agent_id, endpoint_id, estimated_tokens, worker, status, started_at, ended_at, run_ended_at, raised)
  values (-task, 1, agent, endpoint, 100, 'w', (case when run_ended is null then 'running' else 'failed' end)::lakequeue.attempt_status, lakequeue._now() - interval '2 hours',
          lakequeue._now() - run_ended, lakequeue._now() - run_ended, raised)
$$;
create function pg_temp.raised() returns text language sql as $$
  select string_agg(format('%s/%s: %s', r.endpoint_id, r.agent_id, r.raised), '; ' order by r.endpoint_id, r.agent_id) from lakequeue._raised(array[900001, 900002]) r
$$;
select is(pg_temp.raised(), null, 'nothing runs');
select pg_temp.attempt(1, 900001, 900010, null), pg_temp.attempt(2, 900001, 900010, null, '1 second');
select is(pg_temp.raised(), null, 'what no report has raised has no row');
select pg_temp.attempt(3, 900001, 900010, '{0,10,20,3,0}'), pg_temp.attempt(4, 900001, 900010, '{0,1,2,4,0}', '59.999999 seconds');
select is(pg_temp.raised(), '900001/900010: {0,11,22,7,0}', 'it is added up, kind by kind, of what runs or has ended within a minute');
select pg_temp.attempt(5, 900001, 900010, '{0,500,500,500,500}', '60 seconds');
select is(pg_temp.raised(), '900001/900010: {0,11,22,7,0}', 'not of what has left the window');
select pg_temp.attempt(6, 900001, 900010, '{7,1,1,1,7}');
select is(pg_temp.raised(), '900001/900010: {0,12,23,8,0}', 'no report raises the number of tasks or requests');
select pg_temp.attempt(7, 900001, 900011, '{0,5,5,5,0}'), pg_temp.attempt(8, 900002, 900010, '{0,6,6,6,0}'), pg_temp.attempt(9, 900003, 900010, '{0,9,9,9,0}');
select is(pg_temp.raised(), '900001/900010: {0,12,23,8,0}; 900001/900011: {0,5,5,5,0}; 900002/900010: {0,6,6,6,0}',
  'per endpoint and agent, for the endpoints asked for');

-- never more than it counts itself: in a window that an attempt leaves, its raise would take others' use along
delete from task_attempts a where a.endpoint_id > 900000;
select pg_temp.attempt(1, 900001, 900010, '{0,500,10,500,0}');
select is(pg_temp.raised(), '900001/900010: {0,100,10,25,0}', 'never more than what the attempt counts itself, of each kind');
select pg_temp.attempt(2, 900001, 900010, '{0,500,500,500,0}', '1 second');
update task_attempts set usage_complete = true, input_tokens = 7, output_tokens = 2, usage_source = 'trace' where endpoint_id = 900001;
select is(pg_temp.raised(), '900001/900010: {0,109,17,27,0}', 'which is what it used once its run has ended and that is known completely');
delete from task_attempts a where a.endpoint_id > 900000;
select pg_temp.attempt(3, 900001, 900010, '{0,10,20,5,0}');

create function pg_temp.call(endpoint integer, raised numeric[], ended interval) returns void language sql as $$
  insert into lakequeue.model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at, ended_at, raised)
  values (-1, gen_random_uuid(), endpoint, 900010, 5, 10, 10, lakequeue._now() - interval '1 hour', lakequeue._now(), lakequeue._now() - interval '1 hour',
          lakequeue._now() - ended, raised)
$$;
select pg_temp.call(900001, '{0,1,2,3,0}', '59.999999 seconds'), pg_temp.call(900001, '{0,500,500,500,0}', '60 seconds'), pg_temp.call(900001, null, '1 second'),
       pg_temp.call(900003, '{0,500,500,500,0}', '1 second');
select is(pg_temp.raised(), '900001/900010: {0,11,22,8,0}', 'calls raise, too, until they leave the window themselves');
select is((select r.raised from _raised(array[900001], _now() + interval '1 second') r), '{0,10,20,5,0}', 'as of a given time') ;
update task_attempts set reserves_calls = true where endpoint_id = 900001;
select is(pg_temp.raised(), '900001/900010: {0,1,2,3,0}', 'an attempt that reserves its calls counts nothing, and has raised nothing');

select is_empty($$select * from _raised('{}')$$, 'no endpoints, no rows');
select is_empty($$select * from _raised(null)$$, 'neither for null');
set session authorization test_worker;
select throws_ok('select lakequeue._raised(array[1])', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
