-- Pages of the throttle's books: each change takes the next number in the place of the last, so that one row per holder
-- is left and the newest is the first of its index.
begin;
select plan(19);
select set_clock('2026-03-01 09:00+00');
create function pg_temp.pages() returns setof text language sql as $$
  select format('%s %s, %s: %s %s %s', k.scope, k.scope_id, k.no, k.used, k.booked, k.raised)
  from lakequeue.throttle_books k where k.scope_id between 900001 and 900099 order by k.scope desc, k.scope_id, k.no
$$;
select _keep_book(900001, null, null, '{1,2,3,4,5}', '{6,7,8,9,10}', '{0,1,1,1,1}');
select results_eq('select pg_temp.pages()', array['endpoint 900001, 1: {1,2,3,4,5} {6,7,8,9,10} {0,1,1,1,1}'], 'the first page of an endpoint');
select _keep_book(900001, null, 1, '{2,2,3,4,5}', '{7,7,8,9,10}', '{0,2,1,1,1}');
select results_eq('select pg_temp.pages()', array['endpoint 900001, 2: {2,2,3,4,5} {7,7,8,9,10} {0,2,1,1,1}'], 'the next one takes its place');
select _keep_book(900001, null, n, array_fill(n, array[5]), array_fill(n, array[5]), '{0,0,0,0,0}') from generate_series(2, 1000) n;
select results_eq('select pg_temp.pages()', array['endpoint 900001, 1001: {1000,1000,1000,1000,1000} {1000,1000,1000,1000,1000} {0,0,0,0,0}'],
  'one row is left, however many there were');
select _keep_book(900001, 900010, null, '{1,1,1,1,1}', '{1,1,1,1,1}', '{0,0,0,0,0}'), _keep_book(900002, null, null, '{2,2,2,2,2}', '{2,2,2,2,2}', '{0,0,0,0,0}'),
       _keep_book(900002, 900001, null, '{3,3,3,3,3}', '{3,3,3,3,3}', '{0,0,0,0,0}');
select results_eq('select pg_temp.pages()', array[
  'endpoint 900001, 1001: {1000,1000,1000,1000,1000} {1000,1000,1000,1000,1000} {0,0,0,0,0}', 'endpoint 900002, 1: {2,2,2,2,2} {2,2,2,2,2} {0,0,0,0,0}',
  'agent 900001, 1: {3,3,3,3,3} {3,3,3,3,3} {0,0,0,0,0}', 'agent 900010, 1: {1,1,1,1,1} {1,1,1,1,1} {0,0,0,0,0}'],
  'each endpoint and each agent has its own, whatever their ids');
select _keep_book(900002, 900001, 1, '{null,null,null,null,null}', '{4,null,null,null,null}', '{0,0,0,0,0}');
select results_eq($$select p from pg_temp.pages() p where p like 'agent 900001%'$$, array['agent 900001, 2: {NULL,NULL,NULL,NULL,NULL} {4,NULL,NULL,NULL,NULL} {0,0,0,0,0}'],
  'what is unknown is noted as that, of the agent alone');
select results_eq($$select p from pg_temp.pages() p where p like 'endpoint 90000%' or p like 'agent 900010%'$$, array[
  'endpoint 900001, 1001: {1000,1000,1000,1000,1000} {1000,1000,1000,1000,1000} {0,0,0,0,0}', 'endpoint 900002, 1: {2,2,2,2,2} {2,2,2,2,2} {0,0,0,0,0}',
  'agent 900010, 1: {1,1,1,1,1} {1,1,1,1,1} {0,0,0,0,0}'], 'nobody else''s page is touched');
select lives_ok($$select _keep_book(900002, 900001, 1, '{9,9,9,9,9}', '{9,9,9,9,9}', '{0,0,0,0,0}')$$, '(a page that is not the last one)');
select results_eq($$select p from pg_temp.pages() p where p like 'agent 900001%'$$, array['agent 900001, 2: {NULL,NULL,NULL,NULL,NULL} {4,NULL,NULL,NULL,NULL} {0,0,0,0,0}'],
  'is not replaced: what was read is not what is there');
select _keep_book(900003, null, null, '{1,1,1,1,1}', '{1,1,1,1,1}', '{0,0,0,0,0}'), _keep_book(900004, 900003, null, '{2,2,2,2,2}', '{2,2,2,2,2}', '{0,0,0,0,0}'),
       _keep_book(900003, null, 1, '{5,5,5,5,5}', '{5,5,5,5,5}', '{0,0,0,0,0}');
select results_eq($$select p from pg_temp.pages() p where p like '% 900003,%'$$, array['endpoint 900003, 2: {5,5,5,5,5} {5,5,5,5,5} {0,0,0,0,0}', 'agent 900003, 1: {2,2,2,2,2} {2,2,2,2,2} {0,0,0,0,0}'],
  'an endpoint''s page is none of an agent whose id and number are the same');
select throws_ok($$select _keep_book(900002, null, null, '{1,1,1,1,1}', '{1,1,1,1,1}', '{0,0,0,0,0}')$$, '23505', null, 'nor is there a second first page');

-- --- by those who decide ---------------------------------------------------------------------------
select configure_endpoint('_keep', max_concurrent_tasks => 5, max_tpm => 10000, max_rpm => 100);
select configure_agent('_keep', model_endpoint => '_keep', max_tpm => 9000, tokens_per_task => 100, tokens_per_page => 0, estimate_factor => 1);
select configure_agent('_keep other', model_endpoint => '_keep', max_tpm => 9000), configure_agent('_keep calls', model_endpoint => '_keep', reserves_calls => true, tokens_per_task => 100, tokens_per_page => 0, estimate_factor => 1);
create function pg_temp.numbers() returns text language sql as $$
  select string_agg(format('%s %s', coalesce(g.name, 'endpoint'), k.no), ', ' order by k.scope desc, g.name, k.no)
  from lakequeue.throttle_books k left join lakequeue.agents g on k.scope = 'agent' and g.id = k.scope_id
  where k.scope = 'endpoint' and k.scope_id = (select e.id from lakequeue.model_endpoints e where e.name = '_keep') or g.name like '\_keep%'
$$;
select enqueue_task('_keep', '/' || n) from generate_series(1, 4) n;
select count(*) from dequeue_tasks('w', 1, array['_keep']);
select is(pg_temp.numbers(), 'endpoint 2, _keep 2, _keep other 1', 'a first dequeue counts everybody''s, then adds what it claims to the pages that this concerns');
select count(*) from dequeue_tasks('w', 1, array['_keep']);
select is(pg_temp.numbers(), 'endpoint 3, _keep 3, _keep other 1', 'further ones add');
select count(*) from dequeue_tasks('w', 2, array['_keep']);
select is(pg_temp.numbers(), 'endpoint 4, _keep 4, _keep other 1', 'a page for several tasks');
select count(*) from dequeue_tasks('w', 1, array['_keep']);
select is(pg_temp.numbers(), 'endpoint 4, _keep 4, _keep other 1', 'nothing claimed, nothing written');
select enqueue_task('_keep calls', '/c');
create temporary table c as select * from dequeue_tasks('w', 1, array['_keep calls']);
select is(pg_temp.numbers(), 'endpoint 5, _keep 4, _keep other 1', 'an agent without limits has no page; its endpoint has');
select is(r.answer, 'granted', 'a call that is granted') from c cross join lateral reserve_tokens(c.attempt_id, c.callback_token, 30, 12) r;
select is(pg_temp.numbers(), 'endpoint 6, _keep 4, _keep other 1', 'is added, too');
select results_eq($$select used, booked from throttle_books k where k.scope = 'endpoint' and k.scope_id = (select model_endpoint_id from agents where name = '_keep')$$,
  $$values ('{5,442,330,112,5}'::numeric[], '{5,500,375,125,5}'::numeric[])$$, 'four estimates and a call are used; a run is booked instead of its call');
set session authorization test_worker;
select throws_ok($$select lakequeue._keep_book(1, null, null, '{}', '{}', '{}')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
