-- Every limit of some endpoints with what is spent of it: of the endpoint by everybody there, of an agent by itself,
-- wherever it has been.
begin;
\ir scenarios.sql
select plan(8);

select configure_endpoint('_l1', max_concurrent_tasks => 9, max_tpm => 5000), configure_endpoint('_l2', max_rpm => 7), configure_endpoint('_l3');
select configure_agent('_la', model_endpoint => '_l2', tokens_per_task => 100, tokens_per_page => 0, estimate_factor => 1);
select enqueue_task('_la', '/a.pdf');
select is((select count(*) from dequeue_tasks('w', 1, array['_la'])), 1::bigint, '(one runs at the second endpoint)');
select configure_agent('_la', model_endpoint => '_l1', max_tpm => 1000, max_concurrent_tasks => 3);
select configure_agent('_lb', model_endpoint => '_l1', tokens_per_task => 50, tokens_per_page => 0, estimate_factor => 1);
select enqueue_task('_la', '/b.pdf'), enqueue_task('_lb', '/c.pdf');
select is((select count(*) from dequeue_tasks('w', 2, array['_la', '_lb'])), 2::bigint, '(its agent has moved to the first; two run there)');

create function pg_temp.limits(variadic endpoints text[]) returns setof text language sql as $$
  select format('%s %s %s: %s of %s', e.name, a.name, l.kind, trim_scale(l.used), l.ceiling)
  from lakequeue._limits(array(select n.id from lakequeue.model_endpoints n where n.name = any(endpoints))) l
  join lakequeue.model_endpoints e on e.id = l.endpoint_id
  left join lakequeue.agents a on a.id = l.agent_id
$$;
select bag_eq($$select pg_temp.limits('_l1')$$, array[
  '_l1  tasks: 2 of 9', '_l1  tokens: 150 of 5000', '_l1 _la tasks: 2 of 3', '_l1 _la tokens: 200 of 1000'],
  'an endpoint''s limits count what runs there; an agent''s also what it started elsewhere');
select bag_eq($$select pg_temp.limits('_l2')$$, array['_l2  requests: 1 of 7'], 'its former endpoint counts what is left there');
select bag_eq($$select pg_temp.limits('_l1', '_l2')$$, array[
  '_l1  tasks: 2 of 9', '_l1  tokens: 150 of 5000', '_l1 _la tasks: 2 of 3', '_l1 _la tokens: 200 of 1000', '_l2  requests: 1 of 7'],
  'several at once, nothing twice');
select is_empty($$select pg_temp.limits('_l3')$$, 'no limits, no rows');
select is_empty($$select * from _limits('{}')$$, 'no endpoints, no rows');
set session authorization test_worker;
select throws_ok('select * from lakequeue._limits(array[1])', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
