-- Every limit of some endpoints with what is spent of it: of the endpoint by everybody there, of an agent by itself,
-- wherever it has been; as counted, or as the books carry it.
begin;
\ir scenarios.sql
select plan(31);

select configure_endpoint('_l1', max_concurrent_tasks => 9, max_tpm => 5000), configure_endpoint('_l2', max_rpm => 7), configure_endpoint('_l3');
select configure_agent('_la', model_endpoint => '_l2', tokens_per_task => 100, tokens_per_page => 0, estimate_factor => 1);
select enqueue_task('_la', '/a.pdf');
select is((select count(*) from dequeue_tasks('w', 1, array['_la'])), 1::bigint, '(one runs at the second endpoint)');
select configure_agent('_la', model_endpoint => '_l1', max_tpm => 1000, max_concurrent_tasks => 3);
select configure_agent('_lb', model_endpoint => '_l1', tokens_per_task => 50, tokens_per_page => 0, estimate_factor => 1);
select enqueue_task('_la', '/b.pdf'), enqueue_task('_lb', '/c.pdf');
create temporary table claims as select * from dequeue_tasks('w', 2, array['_la', '_lb']);
select is((select count(*) from claims), 2::bigint, '(its agent has moved to the first; two run there)');

create function pg_temp.ids(variadic endpoints text[]) returns integer[] language sql as $$
  select array(select n.id from lakequeue.model_endpoints n where n.name = any(endpoints))
$$;
create function pg_temp.limits(from_books boolean, variadic endpoints text[]) returns setof text language sql as $$
  select format('%s %s %s: %s of %s', e.name, a.name, k.kind, coalesce(trim_scale(k.used)::text, '?'), k.ceiling)
  from lakequeue._limits(pg_temp.ids(variadic endpoints), from_books) l
  join lakequeue.model_endpoints e on e.id = l.endpoint_id
  left join lakequeue.agents a on a.id = l.agent_id
  cross join lateral unnest(lakequeue._kinds(), l.ceilings, l.used) k(kind, ceiling, used)
  where k.ceiling is not null
$$;

-- --- counted -------------------------------------------------------------------------------------
select bag_eq($$select pg_temp.limits(false, '_l1')$$, array[
  '_l1  tasks: 2 of 9', '_l1  tokens: 150 of 5000', '_l1 _la tasks: 2 of 3', '_l1 _la tokens: 200 of 1000'],
  'an endpoint''s limits count what runs there; an agent''s also what it started elsewhere');
select bag_eq($$select pg_temp.limits(false, '_l2')$$, array['_l2  requests: 1 of 7'], 'its former endpoint counts what is left there');
select bag_eq($$select pg_temp.limits(false, '_l1', '_l2')$$, array[
  '_l1  tasks: 2 of 9', '_l1  tokens: 150 of 5000', '_l1 _la tasks: 2 of 3', '_l1 _la tokens: 200 of 1000', '_l2  requests: 1 of 7'],
  'several at once, nothing twice');
select is_empty($$select pg_temp.limits(false, '_l3')$$, 'no limits, no rows');
select is_empty($$select from (values (true), (false)) c(c) cross join lateral _limits('{}', c) l$$, 'no endpoints, no rows');
select results_eq($$select e.name, a.name, l.ceilings from _limits(pg_temp.ids('_l1', '_l2'), false) with ordinality l
                    join model_endpoints e on e.id = l.endpoint_id left join agents a on a.id = l.agent_id order by l.ordinality$$,
  $$values ('_l1', null, '{9,5000,null,null,null}'::bigint[]), ('_l1', '_la', '{3,1000,null,null,null}'), ('_l2', null, '{null,null,null,null,7}')$$,
  'a row for each holder of limits, in order, with null where there is none');
select results_eq($$select l.used, l.booked from _limits(pg_temp.ids('_l2'), false) l$$,
  $$values ('{1,100,75,25,1}'::numeric[], '{1,100,75,25,1}'::numeric[])$$, 'whatever is limited, every kind is counted, used and booked');
select configure_endpoint('_l2', max_concurrent_tasks => 4, max_rpm => 0);
select results_eq($$select l.used[1], l.raised from _limits(pg_temp.ids('_l2'), false) l$$, $$values (1::numeric, '{0,0,0,0,0}'::numeric[])$$,
  'where only places are limited');
select configure_endpoint('_l2', max_concurrent_tasks => 0, max_rpm => 7);

-- --- from the books -------------------------------------------------------------------------------------
select is_empty($$select from throttle_books where scope = 'agent' and scope_id = (_agent('_lb')).id$$,
  'who has no limits has no page');
select bag_eq($$select pg_temp.limits(true, '_l2')$$, array['_l2  requests: ? of 7'], 'what nobody has counted yet is not known');
select is((select l.no from _limits(pg_temp.ids('_l3'), true) l), null, '(no page)');
select bag_eq($$select pg_temp.limits(true, '_l1')$$, $$select pg_temp.limits(false, '_l1')$$, 'after a dequeue the books say what a count says');
select is((select bool_and(l.no is not null) from _limits(pg_temp.ids('_l1'), true) l), true, 'and name their page');
select bag_eq($$select l.no, l.raised from _limits(pg_temp.ids('_l1'), true) l$$, $$select l.no, l.raised from _limits(pg_temp.ids('_l1'), false) l$$,
  'which a count names, too, to replace it');

select is(record_callback(attempt_id, callback_token, 'success', '1', input_tokens => 10, output_tokens => 0, usage_complete => true), 'accepted',
  '(one ends, and used 10 of 50)') from claims where agent = '_lb';
select bag_eq($$select pg_temp.limits(true, '_l1')$$, array[
  '_l1  tasks: 2 of 9', '_l1  tokens: 150 of 5000', '_l1 _la tasks: 2 of 3', '_l1 _la tokens: 200 of 1000'],
  'what has ended or turned out less stays in the books');
select bag_eq($$select pg_temp.limits(false, '_l1')$$, array[
  '_l1  tasks: 1 of 9', '_l1  tokens: 110 of 5000', '_l1 _la tasks: 2 of 3', '_l1 _la tokens: 200 of 1000'],
  'until it is counted');
select answer from claims c cross join lateral extend_leases(array[c.attempt_id], array[c.callback_token], array[160], array[20]) where c.agent = '_la';
select bag_eq($$select pg_temp.limits(true, '_l1')$$, array[
  '_l1  tasks: 2 of 9', '_l1  tokens: 230 of 5000', '_l1 _la tasks: 2 of 3', '_l1 _la tokens: 280 of 1000'],
  'an overrun of 80 is added when they are read, for the endpoint and for the agent');
select results_eq($$select trim_scale(l.booked[2]), l.raised from _limits(pg_temp.ids('_l1'), true) l$$,
  $$values (230::numeric, '{0,80,85,0,0}'::numeric[]), (280, '{0,80,85,0,0}')$$, 'to what is booked likewise; it is told how much, by kind');
select bag_eq($$select pg_temp.limits(false, '_l1')$$, array[
  '_l1  tasks: 1 of 9', '_l1  tokens: 190 of 5000', '_l1 _la tasks: 2 of 3', '_l1 _la tokens: 280 of 1000'], 'a count has it by itself');
select _recount(pg_temp.ids('_l1'));
select bag_eq($$select pg_temp.limits(true, '_l1')$$, $$select pg_temp.limits(false, '_l1')$$, 'once it is counted it is not added again');

select configure_agent('_la', model_endpoint => '_l2');
select answer from claims c cross join lateral extend_leases(array[c.attempt_id], array[c.callback_token], array[260], array[20]) where c.agent = '_la';
select _recount(pg_temp.ids('_l1', '_l2'));
select answer from claims c cross join lateral extend_leases(array[c.attempt_id], array[c.callback_token], array[262], array[20]) where c.agent = '_la';
select bag_eq($$select pg_temp.limits(true, '_l1', '_l2')$$, array[
  '_l1  tasks: 1 of 9', '_l1  tokens: 292 of 5000', '_l2  requests: 1 of 7', '_l2 _la tasks: 2 of 3', '_l2 _la tokens: 382 of 1000'],
  'an overrun at an endpoint that the agent has left is added there, and to the agent''s own');
select bag_eq($$select pg_temp.limits(true, '_l2')$$, array['_l2  requests: 1 of 7', '_l2 _la tasks: 2 of 3', '_l2 _la tokens: 382 of 1000'],
  'whichever endpoints are asked for');
select bag_eq($$select pg_temp.limits(true, '_l1')$$, array['_l1  tasks: 1 of 9', '_l1  tokens: 292 of 5000'], '(from both sides)');

select bag_eq($$select e.name, a.name as agent, l.raised from _limits(pg_temp.ids('_l1', '_l2'), true) l join model_endpoints e on e.id = l.endpoint_id left join agents a on a.id = l.agent_id$$,
  $$values ('_l1', null, '{0,182,187,0,0}'::numeric[]), ('_l2', null, '{0,0,0,0,0}'), ('_l2', '_la', '{0,182,187,0,0}')$$,
  'not to what the other endpoint counts');
select configure_agent('_lc', model_endpoint => '_l2', max_tpm => 1), configure_agent('_ld', model_endpoint => '_l1', max_tpm => 1);
select bag_eq($$select a.name from (values (true), (false)) c(c) cross join lateral _limits(pg_temp.ids('_l2'), c) l left join agents a on a.id = l.agent_id$$,
  array[null, null, '_la', '_la', '_lc', '_lc'], 'who is at an endpoint that one of them has left is not asked for');
select configure_agent('_lc', max_tpm => 0), configure_agent('_ld', max_tpm => 0);
select _recount(pg_temp.ids('_l1', '_l2'));

insert into throttle_books select k.scope, k.scope_id, k.no - 1, '{0,0,0,0,0}', '{0,0,0,0,0}', k.raised from throttle_books k
where k.scope = 'endpoint' and k.scope_id = any(pg_temp.ids('_l1'));
select bag_eq($$select pg_temp.limits(true, '_l1')$$, array['_l1  tasks: 1 of 9', '_l1  tokens: 292 of 5000'], 'of several pages the newest is read');
insert into throttle_books select case k.scope when 'agent' then 'endpoint' else 'agent' end, k.scope_id, k.no + 1000000, '{7,7,7,7,7}', '{7,7,7,7,7}', k.raised
from throttle_books k where k.scope = 'endpoint' and k.scope_id = any(pg_temp.ids('_l1'));
select bag_eq($$select pg_temp.limits(true, '_l1')$$, array['_l1  tasks: 1 of 9', '_l1  tokens: 292 of 5000'],
  'a page of an agent whose id is the endpoint''s is another');
set session authorization test_worker;
select throws_ok('select * from lakequeue._limits(array[1], true)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
