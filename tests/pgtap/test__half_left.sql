-- Of endpoints that somebody else holds those whose books leave half of every limit, of their agents' as well.
begin;
select plan(14);

select configure_endpoint('_hl e', max_concurrent_tasks => 4, max_tpm => 1000),
       configure_agent('_hl a', model_endpoint => '_hl e', max_concurrent_tasks => 2, tokens_per_task => 200, tokens_per_page => 0, estimate_factor => 1),
       configure_agent('_hl b', model_endpoint => '_hl e', tokens_per_task => 100, tokens_per_page => 0, estimate_factor => 1),
       configure_agent('_hl free'),
       configure_agent('_hl own', max_rpm => 2, tokens_per_task => 100, tokens_per_page => 0, estimate_factor => 1);
select enqueue_task(a, '/' || n) from unnest(array['_hl a', '_hl b', '_hl own']) a, generate_series(1, 5) n;

create function pg_temp.half_left(asked text[], served text[]) returns text[] language sql as $$
  select array(
    select e.name
    from unnest(lakequeue._half_left(
      array(select e.id from lakequeue.model_endpoints e join unnest(asked) with ordinality n(name, no) using (name) order by n.no),
      array(select a.id from lakequeue.agents a where a.name = any(served)))) with ordinality r(id, no)
    join lakequeue.model_endpoints e on e.id = r.id
    order by r.no)
$$;
create function pg_temp.claim(agent text, how_many integer) returns bigint language sql as $$
  select count(*) from lakequeue.dequeue_tasks('_hl w', how_many, array[agent])
$$;

select is(pg_temp.half_left('{_hl e}', '{_hl a,_hl b}'), '{}', 'without a page nothing is known');
select is(pg_temp.claim('_hl b', 1), 1::bigint, '(100 of 1000 tokens and one of 4 tasks)');
select is(pg_temp.half_left('{_hl e}', '{_hl b}'), '{_hl e}', 'with less than half used');
select configure_agent('_hl a', max_concurrent_tasks => 2);
select is(pg_temp.half_left('{_hl e}', '{_hl a,_hl b}'), '{}', 'nor of an agent whose limits have been changed');
select is(pg_temp.claim('_hl a', 1), 1::bigint, '(300 tokens, two tasks; of the agent, one of 2)');
select is(pg_temp.half_left('{_hl e}', '{_hl a}'), '{_hl e}', 'with exactly half used');
select is(pg_temp.claim('_hl a', 1), 1::bigint, '(3 of 4 tasks)');
select is(pg_temp.half_left('{_hl e}', '{_hl b}'), '{}', 'with more than half of one limit used');
select configure_endpoint('_hl e', max_concurrent_tasks => 100);
select is(pg_temp.claim('_hl b', 1), 1::bigint, '(4 of 100 tasks, 600 of 1000 tokens)');
select is(pg_temp.half_left('{_hl e}', '{_hl b}'), '{}', 'or of another one');
select is(pg_temp.half_left('{_hl free}', '{_hl free}'), '{}', 'nothing is said where no limit is');
select is(pg_temp.claim('_hl own', 1), 1::bigint, '(one of 2 requests)');
select is(pg_temp.half_left('{_hl free,_hl own,_hl e,_hl a}', '{_hl own,_hl a}'), '{_hl own}', 'of many, in the order given');

set session authorization test_worker;
select throws_ok('select lakequeue._half_left(array[1], array[1])', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
