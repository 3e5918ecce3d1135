-- The model calls at endpoints that have not ended: under way and waiting, from the place on that the newest book says.
begin;
\ir scenarios.sql
select plan(9);
select without_upkeep();

select start() as one, start() as two \gset
select endpoint_id as e1 from task_attempts where id = :one \gset
select endpoint_id as e2 from task_attempts where id = :two \gset
create function pg_temp.call(attempt bigint, input bigint, granted boolean, ended boolean default false) returns void language sql as $$
  insert into lakequeue.model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at, ended_at)
  select a.id, gen_random_uuid(), a.endpoint_id, a.agent_id, 5, input, 1, lakequeue._now(), lakequeue._now(),
         case when granted then lakequeue._now() end, case when ended then lakequeue._now() end
  from lakequeue.task_attempts a where a.id = attempt
$$;
create function pg_temp.open(endpoints integer[], only_waiting boolean default false) returns bigint[] language sql as $$
  select array_agg(c.input_tokens order by c.input_tokens) from lakequeue._open_calls(endpoints, only_waiting) c
$$;
select is(pg_temp.open(array[:e1]), null, 'none at first');
select pg_temp.call(:one, 1, true), pg_temp.call(:one, 2, false), pg_temp.call(:one, 3, true, true), pg_temp.call(:two, 4, false);
select is(pg_temp.open(array[:e1, :e2]), '{1,2,4}', 'of these endpoints, under way or waiting');
select is(pg_temp.open(array[:e1, :e2], true), '{2,4}', 'or those alone that wait');
select is(pg_temp.open(array[:e1, :e1, null]), '{1,2}', 'each once; null is none');
select is(pg_temp.open('{}'), null, 'no endpoints, none');
insert into running_books (endpoint_id, no, call_from)
values (:e1, 1, 0), (:e1, 2, (select place from model_calls where attempt_id = :one and input_tokens = 2));
select is(pg_temp.open(array[:e1, :e2]), '{2,4}', 'from its place on; other endpoints have books of their own');
insert into running_books (endpoint_id, no, call_from) values (:e1, 3, (select place + 1 from model_calls where input_tokens = 2));
select is(pg_temp.open(array[:e1]), null, 'not before; the newest book counts');
select results_eq(format('select * from _open_calls(array[%s])', :e2), format('select * from model_calls where attempt_id = %s', :two), 'whole rows');

set session authorization test_agent;
select throws_ok('select * from lakequeue._open_calls(array[1])', '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
