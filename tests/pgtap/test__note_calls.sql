-- The place from which open calls are read moves on with them, and takes along those that have been open for long.
begin;
\ir scenarios.sql
select plan(23);
select without_upkeep();

create temporary table run as select start() as attempt;
create temporary table at as select a.endpoint_id as id, a.agent_id from task_attempts a, run where a.id = run.attempt;
create function pg_temp.ask(calls integer, granted boolean) returns void language sql as $$
  insert into lakequeue.model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at)
  select run.attempt, gen_random_uuid(), at.id, at.agent_id, 5, 1, 1, lakequeue._now(), lakequeue._now(), case when granted then lakequeue._now() end
  from pg_temp.run, pg_temp.at, generate_series(1, calls)
$$;
create function pg_temp.first() returns bigint language sql as $$ select min(c.id) from lakequeue.model_calls c where c.ended_at is null $$;
create function pg_temp.place(call bigint) returns bigint language sql as $$ select c.place from lakequeue.model_calls c where c.id = call $$;
create function pg_temp.book() returns bigint language sql as $$
  select k.call_from from lakequeue.running_books k join pg_temp.at on at.id = k.endpoint_id order by k.no desc limit 1
$$;
create function pg_temp.open() returns bigint language sql as $$ select count(*) from pg_temp.at cross join lateral lakequeue._open_calls(array[at.id]) $$;
create function pg_temp.moved() returns text language sql as $$
  select format('%s moved, from %s', k.calls_overtaken, k.calls_overtaken_from - (1::bigint << 62))
  from lakequeue.running_books k join pg_temp.at on at.id = k.endpoint_id order by k.no desc limit 1
$$;
-- as if so many calls had been asked for elsewhere
create function pg_temp.pass(calls bigint) returns void language sql as $$
  select setval('lakequeue.model_calls_id_seq', nextval('lakequeue.model_calls_id_seq') + pass.calls)
$$;
create function pg_temp.note() returns void language sql as $$ select lakequeue._note_calls(at.id) from pg_temp.at $$;

select is(pg_temp.book(), null, 'nothing is noted at first');
select pg_temp.ask(4, true), pg_temp.ask(2, false);
select pg_temp.first() as first \gset
select pg_temp.note();
select is(pg_temp.book(), pg_temp.place(:first), 'open calls begin with the first');
select is((select count(*) from running_books k join at on at.id = k.endpoint_id), 1::bigint, 'in one row');
update model_calls c set ended_at = _now() where c.id < :first + 3;
select pg_temp.note();
select is(pg_temp.book(), pg_temp.place(:first + 3), 'those that have ended are passed');
select is(pg_temp.open(), 3::bigint, 'all that are open are there');
update running_books k set place_from = 7 from at where at.id = k.endpoint_id;
select _note_running(array[id]) from at;
select is(pg_temp.book(), pg_temp.place(:first + 3), 'what is noted of attempts leaves it alone');
select pg_temp.note();
select isnt(k.place_from, 0::bigint, 'and what is noted of calls leaves those') from running_books k join at on at.id = k.endpoint_id;

-- one that is open for long
delete from model_calls c where c.id = :first + 4;
select pg_temp.pass(200);
select pg_temp.note();
select is(pg_temp.book(), pg_temp.place(:first + 3), 'one that others have overtaken holds it back');
select pg_temp.pass(100);
select pg_temp.place(:first + 3) as before \gset
select pg_temp.note();
select is(pg_temp.place(:first + 3), 1::bigint << 62, 'unless they are many: then it is moved');
select ok(pg_temp.book() > :before + 250, 'and holds back nothing');
select is(pg_temp.moved(), '2 moved, from 0', 'those that were moved are read from a mark of their own');
select is(pg_temp.open(), 2::bigint, 'still all are there');
select is(pg_temp.first(), (:first + 3)::bigint, 'and it is still the first in order');
select pg_temp.ask(1, false);
select is(pg_temp.open(), 3::bigint, 'what is asked for later is there, too');
select max(c.id) as third from model_calls c \gset
select pg_temp.pass(1000);
select pg_temp.note();
select is(pg_temp.place(:first + 3), 1::bigint << 62, 'however many more calls overtake it, it is moved once');
select is(pg_temp.moved(), '3 moved, from 0', '(the one that was asked for later is moved behind it)');
update running_books k set calls_overtaken = 250 from at where k.endpoint_id = at.id;
select pg_temp.note();
select is(pg_temp.moved(), '250 moved, from 0', '250 that were moved later hold it where it is');
update running_books k set calls_overtaken = 251 from at where k.endpoint_id = at.id;
select pg_temp.note();
select is(format('%s, %s, ', pg_temp.place(:first + 3) - (1::bigint << 62), pg_temp.place(:third) - (1::bigint << 62)) || pg_temp.moved(),
  '251, 2, 253 moved, from 2', 'more do not');
select is(pg_temp.open(), 3::bigint, 'and all are there');

-- a sequence that was set back
select setval('model_calls_id_seq', 1);
select pg_temp.note();
select is(pg_temp.open(), 3::bigint, 'a sequence that was set back hides none');
update model_calls c set ended_at = _now(), granted_at = _now() where c.ended_at is null;
select pg_temp.book() as before \gset
select pg_temp.note();
select ok(pg_temp.book() >= :before, 'where none is open it begins with the next, and moves back for nothing');
select matches(pg_temp.moved(), '^\d+ moved, from $', 'of those that were moved none is read any more');

set session authorization test_agent;
select throws_ok('select lakequeue._note_calls(1)', '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
