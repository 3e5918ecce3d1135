-- The place from which what runs is read moves on with what runs, and takes along what has run for long.
begin;
\ir scenarios.sql
select plan(17);
select without_upkeep();

create temporary table made as select configure_agent('_nr', tokens_per_task => 1000) as agent;
create temporary table at as select model_endpoint_id as id from agents where name = '_nr';
select enqueue_task('_nr', '/' || n) from generate_series(1, 30) n;
create temporary table run as select d.attempt_id as id, row_number() over () as n from dequeue_tasks('w', 10, array['_nr']) d;
create function pg_temp.place(no bigint) returns bigint language sql as $$
  select a.place from pg_temp.run r join lakequeue.task_attempts a using (id) where r.n = place.no
$$;
create function pg_temp.book() returns text language sql as $$
  select format('%s: %s', k.no, k.place_from - pg_temp.place(1)) from lakequeue.running_books k join pg_temp.at on at.id = k.endpoint_id
$$;
create function pg_temp.moved() returns text language sql as $$
  select format('%s moved, from %s', k.overtaken, k.overtaken_from - (1::bigint << 62)) from lakequeue.running_books k join pg_temp.at on at.id = k.endpoint_id
$$;
create function pg_temp.there() returns bigint language sql as $$ select count(*) from pg_temp.at cross join lateral lakequeue._running(array[at.id]) $$;
-- so many claims elsewhere
create function pg_temp.pass(claims bigint) returns void language sql as $$
  select setval('lakequeue.task_attempts_id_seq', nextval('lakequeue.task_attempts_id_seq') + pass.claims)
$$;
select is(pg_temp.book(), null, 'nothing is noted at first');
select _note_running(array[id]) from at;
select is(pg_temp.book(), '2: 0', 'what runs begins with the first');
update task_attempts a set status = 'failed', ended_at = _now(), run_ended_at = _now() from run r where r.id = a.id and r.n <= 4;
select _note_running(array[id]) from at;
select is(pg_temp.book(), format('3: %s', pg_temp.place(5) - pg_temp.place(1)), 'those that have ended are passed');
select is(pg_temp.there(), 6::bigint, 'all that run are there');
select pg_temp.pass(200);
select _note_running(array[id]) from at;
select is(pg_temp.book(), format('4: %s', pg_temp.place(5) - pg_temp.place(1)), 'one that others have overtaken holds it back');
select pg_temp.pass(100);
create temporary table before as select pg_temp.place(5) as place;
select _note_running(array[id]) from at;
select is(pg_temp.place(5), 1::bigint << 62, 'unless they are many: then it is moved');
select ok(k.place_from > before.place + 250, 'and holds back nothing') from running_books k join at on at.id = k.endpoint_id, before;
select is(pg_temp.moved(), '6 moved, from 0', 'those that were moved have a place of their own from which they are read');
select is(pg_temp.there(), 6::bigint, 'still all are there');
select is((select count(*) from dequeue_tasks('w', 3, array['_nr'])), 3::bigint, '(three more start)');
select is(pg_temp.there(), 9::bigint, 'what starts later is there, too');
select pg_temp.pass(1000);
select _note_running(array[id]) from at;
select is(pg_temp.place(5), 1::bigint << 62, 'however many more claims overtake it, it is moved once');
select is(pg_temp.moved(), '9 moved, from 0', '(the three that started later are moved behind it)');
update running_books k set overtaken = 250 from at where k.endpoint_id = at.id;
update task_attempts a set place = (1::bigint << 62) + 249 from run r where r.id = a.id and r.n = 6;
select _note_running(array[id]) from at;
select is(pg_temp.moved(), '250 moved, from 0', '250 that were moved later hold it where it is');
update running_books k set overtaken = 251 from at where k.endpoint_id = at.id;
select _note_running(array[id]) from at;
select is(format('%s, %s, ', pg_temp.place(5) - (1::bigint << 62), pg_temp.place(6) - (1::bigint << 62)) || pg_temp.moved(),
  '251, 249, 256 moved, from 6', 'more do not');
update task_attempts a set status = 'failed', ended_at = _now(), run_ended_at = _now() from at where a.endpoint_id = at.id;
select _note_running(array[id]) from at;
select ok(k.place_from >= (select max(a.place) from task_attempts a where a.place < 1::bigint << 62) and k.overtaken_from is null,
  'where nothing runs it begins with the next')
from running_books k join at on at.id = k.endpoint_id;

set session authorization test_worker;
select throws_ok('select lakequeue._note_running(array[1])', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
