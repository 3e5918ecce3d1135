-- Where limits, estimates or the place of an agent change, what the books say must be counted anew: by configure_agent
-- and configure_endpoint, of the endpoints concerned and all their agents, and of nobody else.
begin;
\ir scenarios.sql
select plan(30);

-- No agent has the id of an endpoint by itself: that is made below.
select setval('agents_id_seq', 1000 + greatest(pg_sequence_last_value('agents_id_seq'), pg_sequence_last_value('model_endpoints_id_seq'), 0));
select configure_endpoint('_v1', max_tpm => 1000), configure_endpoint('_v2', max_tpm => 1000), configure_endpoint('_v3', max_tpm => 1000);
select configure_agent('_v1 a', model_endpoint => '_v1', max_rpm => 10), configure_agent('_v1 b', model_endpoint => '_v1', max_rpm => 10),
       configure_agent('_v2 a', model_endpoint => '_v2', max_rpm => 10);
-- the holders whose page is void; all others must be as they were
create temporary table before as select * from throttle_books with no data;
create function pg_temp.fill() returns void language sql as $$
  select lakequeue._recount(array(select e.id from lakequeue.model_endpoints e where e.name like '\_v_'));
  delete from pg_temp.before;
  insert into pg_temp.before select * from lakequeue.throttle_books;
$$;
create function pg_temp.void() returns text language sql as $$
  select string_agg(
    coalesce(e.name, g.name)
      || case when k.used is not null or k.booked is not null then '?' else '' end
      || case when k.no = b.no + 1 then '' else ' ' || k.no - b.no end
      || case when k.raised = b.raised then '' else ' raised' end, ', ' order by coalesce(e.name, g.name))
  from lakequeue.throttle_books k
  left join pg_temp.before b on b.scope = k.scope and b.scope_id = k.scope_id
  left join lakequeue.model_endpoints e on k.scope = 'endpoint' and e.id = k.scope_id
  left join lakequeue.agents g on k.scope = 'agent' and g.id = k.scope_id
  where k is distinct from b
$$;
create function pg_temp.id(endpoint text) returns integer language sql as $$ select e.id from lakequeue.model_endpoints e where e.name = id.endpoint $$;

select pg_temp.fill();
update model_endpoints set overdue_at = null;
select is(pg_temp.void(), null, 'nothing is void');
select is((select count(*) from before where scope_id in (pg_temp.id('_v1'), pg_temp.id('_v2'), pg_temp.id('_v3')) and scope = 'endpoint'), 3::bigint, '(a page each)');
select _void_books(array[pg_temp.id('_v1')]);
select is(pg_temp.void(), '_v1, _v1 a, _v1 b', 'an endpoint and all its agents, each with the next number');
select is((select overdue_at <= _now() from model_endpoints where name = '_v1'), true, 'what has been passed over is looked for, too');
select is((select string_agg(format('%s %s', l.used is null or l.used = array_fill(null::numeric, array[5]), l.booked is null or l.booked = array_fill(null::numeric, array[5])), ', ')
           from _limits(array[pg_temp.id('_v1')], true) l), 't t, t t, t t', 'nothing is known of them');
select pg_temp.fill();
select is((select bool_and(l.used = '{0,0,0,0,0}') from _limits(array[pg_temp.id('_v1')], true) l), true, 'until they are counted');
select _void_books(array[pg_temp.id('_v2'), pg_temp.id('_v3')]);
select is(pg_temp.void(), '_v2, _v2 a, _v3', 'several');
select pg_temp.fill();
select _void_books(array[pg_temp.id('_v3'), null]);
select is(pg_temp.void(), '_v3', 'null is none');
select pg_temp.fill();
select _void_books('{}');
select is(pg_temp.void(), null, 'no endpoints, none');

-- pages whose ids are those of others
insert into throttle_books select case k.scope when 'agent' then 'endpoint' else 'agent' end, k.scope_id, 1000, k.used, k.booked, k.raised
from throttle_books k where (k.scope = 'endpoint' and k.scope_id = pg_temp.id('_v3')) or (k.scope = 'agent' and k.scope_id = (_agent('_v2 a')).id);
select pg_temp.fill();
select _void_books(array[pg_temp.id('_v3')]);
select is((select count(*) from throttle_books k where k.used is null), 1::bigint, 'an agent''s page is not its, though the ids are the same');
select pg_temp.fill();
select _void_books(array[pg_temp.id('_v2')]);
select is((select count(*) from throttle_books k where k.used is null), 2::bigint, 'nor an endpoint''s page an agent''s');
delete from throttle_books k where k.no >= 1000;
select pg_temp.fill();

-- --- by whom -----------------------------------------------------------------------------------------
select configure_endpoint('_v1', max_tpm => 2000);
select is(pg_temp.void(), '_v1, _v1 a, _v1 b', 'configure_endpoint: a limit');
select pg_temp.fill();
select configure_endpoint('_v1', max_tpm => 0);
select is(pg_temp.void(), '_v1, _v1 a, _v1 b', 'a limit that is taken away: from now on nobody keeps the page');
select configure_endpoint('_v1', max_concurrent_tasks => 5);
select is((select used from throttle_books where scope = 'endpoint' and scope_id = pg_temp.id('_v1')), null, 'another one begins with a count');
select pg_temp.fill();
select configure_agent('_v1 a', max_rpm => 20);
select is(pg_temp.void(), '_v1, _v1 a, _v1 b', 'configure_agent: a limit');
select pg_temp.fill();
select configure_agent('_v1 a', output_share => 0.9);
select is(pg_temp.void(), '_v1, _v1 a, _v1 b', 'how an estimate is split');
select pg_temp.fill();
select configure_agent('_v1 a', reserves_calls => true);
select is(pg_temp.void(), '_v1, _v1 a, _v1 b', 'whether calls are reserved');
select pg_temp.fill();
select configure_agent('_v1 a', model_endpoint => '_v2');
select is(pg_temp.void(), '_v1, _v1 a, _v1 b, _v2, _v2 a', 'a move: the endpoint it leaves, the one it comes to, and its own');
select pg_temp.fill();
select configure_agent('_v new', model_endpoint => '_v3', max_rpm => 5);
select is(pg_temp.void(), '_v3', 'an agent that is new there');
select is((select l.no from _limits(array[pg_temp.id('_v3')], true) l where l.agent_id = (_agent('_v new')).id), null, 'which has no page yet');
select pg_temp.fill();
savepoint undone;
select configure_endpoint('_v1', max_concurrent_tasks => 6);
select isnt(pg_temp.void(), null, '(a change)');
rollback to undone;
select is(pg_temp.void(), null, 'that is rolled back voids nothing');

-- --- what it is for: the truth has risen, and nobody reported it ---------------------------------------
select configure_endpoint('_v4', max_output_tpm => 100), configure_agent('_v4', model_endpoint => '_v4', tokens_per_task => 100, tokens_per_page => 0, output_share => 0.1, estimate_factor => 1);
select enqueue_task('_v4', '/' || n) from generate_series(1, 4) n;
select is((select count(*) from dequeue_tasks('w', 1)), 1::bigint, '(one runs, 10 of 100)');
select configure_agent('_v4', output_share => 0.6);
select is((select count(*) from dequeue_tasks('w', 1)), 0::bigint, 'with more of it output the next one does not fit beside what runs');
select configure_endpoint('_v4', max_output_tpm => 0);
select is((select count(*) from dequeue_tasks('w', 1)), 1::bigint, '(without a limit it starts)');
select configure_endpoint('_v4', max_output_tpm => 170);
select is((select count(*) from dequeue_tasks('w', 1)), 0::bigint, 'what started while there was no limit is counted');


-- of an agent that has moved, attempts count where they started
select configure_endpoint('_v5', max_output_tpm => 100), configure_agent('_v5', model_endpoint => '_v5', tokens_per_task => 100, tokens_per_page => 0, output_share => 0.1, estimate_factor => 1),
       configure_agent('_v5 other', model_endpoint => '_v5', tokens_per_task => 80, tokens_per_page => 0, output_share => 0.5, estimate_factor => 1);
select enqueue_task('_v5', '/1'), enqueue_task('_v5 other', '/2'), enqueue_task('_v5 other', '/3');
select is((select count(*) from dequeue_tasks('w', 1, array['_v5'])), 1::bigint, '(10 of 100)');
select configure_agent('_v5', model_endpoint => '_v6');
select is((select count(*) from dequeue_tasks('w', 1, array['_v5 other'])), 1::bigint, '(50 of 100)');
select configure_agent('_v5', output_share => 0.6);
select is((select count(*) from dequeue_tasks('w', 1, array['_v5 other'])), 0::bigint, 'a change of its split voids the books there, too');

set session authorization test_worker;
select throws_ok('select lakequeue._void_books(array[1])', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
