-- Every limit that applies at these endpoints, with the newest page of its book.
begin;
select plan(8);

select configure_endpoint('_bk e', max_concurrent_tasks => 9, max_tpm => 5000), configure_endpoint('_bk free'),
       configure_agent('_bk a', model_endpoint => '_bk e', max_rpm => 7, tokens_per_task => 100, tokens_per_page => 0, estimate_factor => 1),
       configure_agent('_bk b', model_endpoint => '_bk e', tokens_per_task => 50, tokens_per_page => 0, estimate_factor => 1);
select enqueue_task('_bk a', '/a.pdf'), enqueue_task('_bk b', '/b.pdf');
create function pg_temp.booked(variadic endpoints text[]) returns setof text language sql as $$
  select format('%s %s: %s of %s, %s raised', e.name, a.name, coalesce(trim_array(b.used, 3)::text, '?'), b.ceilings, b.raised)
  from lakequeue._booked(array(select n.id from lakequeue.model_endpoints n where n.name = any(endpoints))) b
  join lakequeue.model_endpoints e on e.id = b.endpoint_id
  left join lakequeue.agents a on a.id = b.agent_id
$$;

select bag_eq($$select pg_temp.booked('_bk e')$$,
  array['_bk e : ? of {9,5000,NULL,NULL,NULL},  raised', '_bk e _bk a: ? of {NULL,NULL,NULL,NULL,7},  raised'],
  'a row for each that has limits, also without a page');
select is_empty($$select pg_temp.booked('_bk free')$$, 'none without limits');
select is_empty($$select from lakequeue._booked('{}')$$, 'none without endpoints');
select is((select count(*) from dequeue_tasks('w', 2, array['_bk a', '_bk b'])), 2::bigint, '(two are claimed)');
select bag_eq($$select pg_temp.booked('_bk e', '_bk free')$$,
  array['_bk e : {2,150} of {9,5000,NULL,NULL,NULL}, {0,0,0,0,0} raised', '_bk e _bk a: {1,100} of {NULL,NULL,NULL,NULL,7}, {0,0,0,0,0} raised'],
  'what the pages say');
insert into throttle_books (scope, scope_id, no, used, booked, raised)
select 'endpoint', e.id, 1000, '{8,9,9,9,9}', '{8,9,9,9,9}', '{0,3,0,0,0}' from model_endpoints e where e.name = '_bk e';
select is((select b.b from pg_temp.booked('_bk e') b(b) where starts_with(b.b, '_bk e :')),
  '_bk e : {8,9} of {9,5000,NULL,NULL,NULL}, {0,3,0,0,0} raised', 'the newest one');
select is((select b.no from lakequeue._booked(array(select e.id from model_endpoints e where e.name = '_bk e')) b where b.agent_id is null), 1000::bigint,
  'and its number');

set session authorization test_worker;
select throws_ok('select * from lakequeue._booked(array[1])', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
