-- confirm_claims: which claims are there and still the worker's, and who may ask. That it waits for the disk, and what a
-- crash leaves, is shown by tests/race/test_durable.py.
begin;
\ir scenarios.sql
select plan(14);

select configure_agent('_cc');
select enqueue_task('_cc', '/' || n) from generate_series(1, 4) n;
create temporary table claim as
select row_number() over () as n, d.attempt_id as id, d.task_id, d.run_key from dequeue_tasks('w', 4, array['_cc'], durable => false) d;
create function pg_temp.confirmed(worker text, numbers integer[]) returns integer[] language sql as $$
  with asked as materialized (
    select array_agg(c.id order by u.place) as ids, array_agg(c.run_key order by u.place) as keys
    from unnest(numbers) with ordinality u(n, place) join pg_temp.claim c using (n)
  )
  select coalesce(array_agg(c.n::integer order by f.place), '{}')
  from asked a cross join lateral lakequeue.confirm_claims(worker, a.ids, a.keys) with ordinality f(id, place)
  join pg_temp.claim c on c.id = f.id
$$;
select is(pg_temp.confirmed('w', '{3,1,4}'), '{3,1,4}', 'what was claimed, in the order asked');
select is(pg_temp.confirmed('v', '{3,1,4}'), '{}', 'but none of another worker');
select report((select id from claim where n = 1), 'success', '1');
update task_attempts a set worker = 'v' from claim c where c.id = a.id and c.n = 4;
select is(pg_temp.confirmed('w', '{3,1,4}'), '{3}', 'nor what has ended, or somebody else has taken');
update claim set run_key = gen_random_uuid() where n = 2;
update claim set id = 1000000000 where n = 3;
select is(pg_temp.confirmed('w', '{2,3}'), '{}', 'nor one that has another key, nor one that is not there');
select is_empty($$select * from confirm_claims('w', '{}', '{}')$$, 'of none there is none');
select throws_ok(format('select * from confirm_claims(%s)', a), 'LQ400', null, a || ' is refused')
from unnest(array[$$'w', '{1,2}', '{}'$$, $$'w', null, '{}'$$, $$'w', '{}', null$$, $$'w', null, null$$, $$null, '{}', '{}'$$, $$'', '{}', '{}'$$]) a;

set session authorization test_worker;
select lives_ok($$select * from confirm_claims('w', '{}', '{}')$$, 'a worker may ask');
set session authorization test_agent;
select throws_ok($$select * from confirm_claims('w', '{}', '{}')$$, '42501', null, 'an agent may not');
set session authorization test_web;
select throws_ok($$select * from confirm_claims('w', '{}', '{}')$$, '42501', null, 'nor may the web process');
set session authorization test_owner;

select * from finish();
rollback;
