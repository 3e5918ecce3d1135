-- The throttle (rules 3 to 5, Q3), seen through dequeue_tasks: concurrency, tokens per minute and both, of agents and of
-- the endpoints they share, and who may pass a task that does not fit.
begin;
select plan(92);

select set_clock('2026-03-01 09:00+00');
-- Agents here estimate a task by its pages alone: 1 page, 1 token. Runs outlive an expired lease by 5 minutes.
create function pg_temp.agent(agent text, max_concurrent_tasks integer default null, max_tpm bigint default null, endpoint text default null)
returns void language sql as $$
  select lakequeue.configure_agent(agent, model_endpoint => endpoint, max_concurrent_tasks => max_concurrent_tasks,
                                   max_tpm => max_tpm, tokens_per_task => 0, tokens_per_page => 1, lease_duration => '1 hour',
                                   reconcile_grace => '5 minutes')
$$;
-- '/a:3000 /b:500' : path and tokens
create function pg_temp.enqueue(agent text, documents text, priority integer default 5) returns void language sql as $$
  select lakequeue.enqueue_task(agent, split_part(d.document, ':', 1), priority, page_count => coalesce(nullif(split_part(d.document, ':', 2), ''), '1')::integer)
  from unnest(string_to_array(documents, ' ')) with ordinality d(document, n) order by d.n
$$;
create temporary table claims (path text, attempt_id bigint, token text);
create function pg_temp.take(batch_size integer, variadic agents text[]) returns text language sql as $$
  with claimed as (select * from lakequeue.dequeue_tasks('w', batch_size, agents) with ordinality),
  noted as (insert into pg_temp.claims select c.document_path, c.attempt_id, c.callback_token from claimed c)
  select string_agg(coalesce(c.document_path, c.outcome), ' ' order by c.ordinality) from claimed c
$$;
create function pg_temp.attempt(path text) returns bigint language sql as
$$ select max(c.attempt_id) from pg_temp.claims c where c.path = attempt.path $$;
create function pg_temp.token(path text) returns text language sql as
$$ select c.token from pg_temp.claims c where c.attempt_id = pg_temp.attempt(token.path) $$;
create function pg_temp.finish(path text, used bigint default null) returns text language sql as $$
  select lakequeue.record_callback(pg_temp.attempt(path), pg_temp.token(path), 'success', '{"x": 1}', input_tokens => used,
                                   output_tokens => 0, usage_complete => used is not null)
$$;

-- --- MAX_CONCURRENT_TASKS ------------------------------------------------------------------------
select pg_temp.agent('_c', 3);
select pg_temp.enqueue('_c', '/c1 /c2 /c3 /c4 /c5 /c6 /c7 /c8 /c9');
select is(pg_temp.take(2, '_c'), '/c1 /c2', 'below the limit the batch decides');
select is(pg_temp.take(10, '_c'), '/c3', 'then the limit');
select is(pg_temp.take(10, '_c'), null, 'at the limit nothing is claimed');
select is(store_result(pg_temp.attempt('/c1'), pg_temp.token('/c1'), '{"x": 1}'), 'accepted', '(one has its result)');
select is(pg_temp.take(10, '_c'), null, 'a task that is completed while its run lives keeps its place');
select pg_temp.finish('/c1');
select is(pg_temp.take(10, '_c'), '/c4', 'which gets free when the run has reported');
select is(fail_attempt(pg_temp.attempt('/c2'), 'crash', outcome => 'permanent_failure'), 'accepted', '(one has failed)');
select is(pg_temp.take(10, '_c'), '/c5', 'or has failed');
select cancel_tasks(array(select task_id from task_attempts where id = pg_temp.attempt('/c3'))) from (select set_person('_admit ann', 'operator')) p;
select is(pg_temp.take(10, '_c'), null, 'a cancel request alone frees nothing');
select record_callback(pg_temp.attempt('/c3'), pg_temp.token('/c3'), 'cancelled');
select is(pg_temp.take(10, '_c'), '/c6', 'but its run''s word that it stopped does');

-- three run: /c4 /c5 /c6. Their leases end, their runs may live on.
select advance('1 hour 4 minutes');
select sweep_leases();
select is(pg_temp.take(10, '_c'), null, 'an expired lease frees nothing within the grace');
select advance('1 minute');
select is(pg_temp.take(10, '_c'), null, 'nor after it without a sweep');
select sweep_leases();
select is(pg_temp.take(10, '_c'), '/c4 /c5 /c6', 'after sweep and grace the three are claimed again, at their old places');

-- An attempt that outlives its task: the first attempt of /c4, closed by the sweep, succeeds after all. The second is
-- superseded, its task is completed, but its run spends on.
create temporary table late as
select a.id, _callback_token(a.id, a.run_key) as token from task_attempts a
where a.task_id = (select task_id from task_attempts where id = pg_temp.attempt('/c4')) and a.number = 1;
select is(record_callback(id, token, 'success', '{"x": 1}'), 'accepted', '(a late success)') from late;
select is((select count(*) from tasks t where t.agent_id = (_agent('_c')).id and t.status = 'processing'), 2::bigint, '(two tasks are processing)');
select is(pg_temp.take(10, '_c'), null, 'a superseded attempt counts while its run may live');
select is(fail_attempt(pg_temp.attempt('/c4'), 'stopped'), 'superseded', '(its run is known to have ended)');
select is(pg_temp.take(10, '_c'), '/c7', 'and no longer');

select configure_agent('_c', max_concurrent_tasks => 1);
select pg_temp.finish('/c5', 0), pg_temp.finish('/c6', 0);
select is(pg_temp.take(10, '_c'), null, 'a lowered limit waits until so few run');
select configure_agent('_c', max_concurrent_tasks => 2);
select is(pg_temp.take(10, '_c'), '/c8', 'a raised one counts at once, from what runs');
select configure_agent('_c', max_concurrent_tasks => 0);
select is(pg_temp.take(10, '_c'), '/c9', 'without a limit there is no limit');

-- shared
select configure_endpoint('_shared', 4);
select pg_temp.agent('_s1', null, null, '_shared'), pg_temp.agent('_s2', 1, null, '_shared');
select pg_temp.enqueue('_s1', '/s11 /s12'), pg_temp.enqueue('_s2', '/s21 /s22 /s23'), pg_temp.enqueue('_s1', '/s13 /s14 /s15');
select is(pg_temp.take(2, '_s1'), '/s11 /s12', 'agents that share an endpoint');
select is(pg_temp.take(10, '_s1', '_s2'), '/s21 /s13', 'share its places; an agent''s own limit holds too');
select is(pg_temp.take(10, '_s2', '_s1'), null, 'its places are taken, whoever asks');
select pg_temp.finish('/s11');
select is(pg_temp.take(10, '_s2'), null, 'an agent at its own limit finds no place');
select is(pg_temp.take(10, '_s1'), '/s14', 'another does');
select pg_temp.finish('/s21');
select is(pg_temp.take(10, '_s1', '_s2'), '/s22', 'the oldest takes the place');

-- --- MAX_TPM -------------------------------------------------------------------------------------
select pg_temp.agent('_t', null, 10000);
select pg_temp.enqueue('_t', '/t1:3000 /t2:3000 /t3:3000 /t4:3000 /t5:3000');
select is(pg_temp.take(10, '_t'), '/t1 /t2 /t3', 'estimates fill the limit');
select is(pg_temp.take(10, '_t'), null, 'the next one waits, enqueued');
select pg_temp.finish('/t1', 1000);
select is(pg_temp.take(10, '_t'), '/t4', 'what is settled at less makes room, to the last token');
select pg_temp.finish('/t2', 2999);
select is(pg_temp.take(10, '_t'), null, 'one token too many is too many');
select advance('59.999999 seconds');
select is(pg_temp.take(10, '_t'), null, 'what ended counts for a minute');
select advance('0.000001 seconds');
select is(pg_temp.take(10, '_t'), '/t5', 'and not longer; what runs counts on');
select pg_temp.enqueue('_t', '/t6:1000 /t7:1');
select is(pg_temp.take(10, '_t'), '/t6', '(full: 10,000)');
select answer from extend_leases(array[pg_temp.attempt('/t6')], array[pg_temp.token('/t6')], array[1001], array[0]);
select pg_temp.finish('/t3', 2999);
select is(pg_temp.take(10, '_t'), null, 'an overrun of the estimate counts at once');
select pg_temp.finish('/t4', 2999);
select is(pg_temp.take(10, '_t'), '/t7', 'until it fits again');
select pg_temp.enqueue('_t', '/t8:0 /t9:1');
select is(pg_temp.take(10, '_t'), null, 'a task that is said to need nothing counts as one token');

-- an expired attempt spent what it spent
select pg_temp.agent('_te', null, 1000);
select pg_temp.enqueue('_te', '/te1:1000');
select is(pg_temp.take(10, '_te'), '/te1', '(one that will expire)');
select advance('1 hour 5 minutes');
select sweep_leases();
select is(pg_temp.take(10, '_te'), null, 'an expired attempt counts for a minute after it was ended');
select advance('60 seconds');
select is(pg_temp.take(10, '_te'), '/te1', 'then its task may try again');

-- shared
select configure_endpoint('_tshared', max_tpm => 10000);
select pg_temp.agent('_ts1', null, null, '_tshared'), pg_temp.agent('_ts2', null, 4000, '_tshared');
select pg_temp.enqueue('_ts1', '/ts11:5000'), pg_temp.enqueue('_ts2', '/ts21:3000 /ts22:1000 /ts23:1000'), pg_temp.enqueue('_ts1', '/ts12:2000');
select is(pg_temp.take(10, '_ts1'), '/ts11', '(5,000 of the endpoint''s 10,000)') from configure_agent('_ts1', max_concurrent_tasks => 1);
select configure_agent('_ts1', max_concurrent_tasks => 0);
select is(pg_temp.take(10, '_ts1', '_ts2'), '/ts21 /ts22', 'both limits hold: 4,000 of the agent, 9,000 of the endpoint');
select configure_agent('_ts2', max_tpm => 0);
select is(pg_temp.take(10, '_ts1', '_ts2'), '/ts23', 'without the agent''s own, 10,000 of the endpoint');
select is(pg_temp.take(10, '_ts1', '_ts2'), null, 'and no more');

-- --- both ----------------------------------------------------------------------------------------
select pg_temp.agent('_both', 2, 10000);
select pg_temp.enqueue('_both', '/b1:3000 /b2:3000 /b3:3000');
select is(pg_temp.take(10, '_both'), '/b1 /b2', 'of both limits the stricter wins: two at once');
select configure_agent('_both', max_concurrent_tasks => 10, max_tpm => 8999);
select is(pg_temp.take(10, '_both'), null, 'or the tokens');
select configure_agent('_both', max_tpm => 9000);
select is(pg_temp.take(10, '_both'), '/b3', 'until they fit');

-- --- rule 4c: larger than the limit --------------------------------------------------------------
select pg_temp.agent('_big', null, 10000);
select pg_temp.enqueue('_big', '/big:50000 /small1:10 /small2:10');
create temporary table big as select * from dequeue_tasks('w', 10, array['_big']);
insert into claims select document_path, attempt_id, callback_token from big;
select results_eq('select document_path, estimated_tokens, max_tpm from big', $$values ('/big', 50000::bigint, 10000::bigint)$$,
  'a task larger than the limit is claimed alone, with the limit to pace itself to');
select is(pg_temp.take(10, '_big'), null, 'beside it nothing is');
select pg_temp.enqueue('_big', '/urgent:10', 9);
select is(pg_temp.take(10, '_big'), null, 'not even what is urgent');
select pg_temp.finish('/big', 9995);
select is(pg_temp.take(10, '_big'), null, 'after it, what it used counts');
select advance('60 seconds');
select is(pg_temp.take(10, '_big'), '/urgent /small1 /small2', 'for a minute');
select pg_temp.enqueue('_big', '/big2:50000 /small3:10');
select is(pg_temp.take(10, '_big'), null, 'it does not start beside others, and equal priorities do not pass it');
select pg_temp.finish('/urgent', 10), pg_temp.finish('/small1', 10), pg_temp.finish('/small2', 10);
select is(pg_temp.take(10, '_big'), null, 'nor within a minute of them');
select advance('60 seconds');
select is(pg_temp.take(10, '_big'), '/big2', 'then it has its turn');
select pg_temp.finish('/big2', 0);
select is(pg_temp.take(10, '_big'), '/small3', 'what turned out to need nothing counts nothing');

select configure_endpoint('_bigshared', max_tpm => 10000);
select pg_temp.agent('_bs1', null, 2000, '_bigshared'), pg_temp.agent('_bs2', null, null, '_bigshared');
select pg_temp.enqueue('_bs2', '/bs2:6000'), pg_temp.enqueue('_bs1', '/bs1a:3000 /bs1b:1');
select is(pg_temp.take(10, '_bs1', '_bs2'), '/bs2 /bs1a', 'larger than its agent''s limit only, it runs beside other agents');
select is(pg_temp.take(10, '_bs1', '_bs2'), null, 'but alone within its agent');
select pg_temp.enqueue('_bs2', '/bs2b:20000', 6);
select is(pg_temp.take(10, '_bs1', '_bs2'), null, 'larger than the endpoint''s limit, it waits for all agents of the endpoint');
select pg_temp.finish('/bs2', 0), pg_temp.finish('/bs1a', 0);
select is(pg_temp.take(10, '_bs1', '_bs2'), '/bs2b', 'then it runs alone');

-- --- rule 5: who passes a misfit -----------------------------------------------------------------
select configure_endpoint('_m', max_tpm => 10000);
select pg_temp.agent('_m1', null, null, '_m'), pg_temp.agent('_m2', null, null, '_m'), pg_temp.agent('_elsewhere', null, 10000);
select pg_temp.enqueue('_m1', '/m-first:6000', 5);
select advance('1 second');
select pg_temp.enqueue('_m1', '/m-misfit:5000 /m-later:10', 5), pg_temp.enqueue('_m1', '/m-lower:10', 4),
       pg_temp.enqueue('_m2', '/m2-later:10', 5), pg_temp.enqueue('_m2', '/m2-lower:10', 0), pg_temp.enqueue('_elsewhere', '/e:10', 0);
select is(pg_temp.take(10, '_m1', '_m2', '_elsewhere'), '/m-first /e',
  'equal and lower priorities do not pass a misfit within its endpoint, also of other agents; other endpoints go on');
select pg_temp.enqueue('_m2', '/m2-urgent:3000 /m2-urgent-misfit:1001', 6), pg_temp.enqueue('_m1', '/m-urgent:10', 6);
select is(pg_temp.take(10, '_m1', '_m2'), '/m2-urgent', 'a higher priority passes, until it does not fit itself');
select is(pg_temp.take(10, '_m1', '_m2'), null, 'and then holds up its own kind');
select is(pg_temp.take(10, '_m1'), '/m-urgent', 'an agent served by itself is held up by its own tasks only');
select pg_temp.finish('/m-first', 0), pg_temp.finish('/m2-urgent', 0), pg_temp.finish('/m-urgent', 0);
select is(pg_temp.take(10, '_m1', '_m2'), '/m2-urgent-misfit /m-misfit /m-later /m2-later /m-lower /m2-lower',
  'when they fit they go, in order');

-- A task that does not fit its agent's own limit is a misfit of the endpoint as well.
select configure_endpoint('_o', max_tpm => 100000);
select pg_temp.agent('_o1', null, 1000, '_o'), pg_temp.agent('_o2', null, null, '_o');
select pg_temp.enqueue('_o1', '/o1-first:900 /o1-misfit:200'), pg_temp.enqueue('_o2', '/o2-equal:10'), pg_temp.enqueue('_o2', '/o2-lower:10', 1);
select is(pg_temp.take(10, '_o1', '_o2'), '/o1-first', 'a misfit of its agent''s own limit is not passed by other agents of the endpoint');
select pg_temp.enqueue('_o2', '/o2-urgent:10', 6);
select is(pg_temp.take(10, '_o1', '_o2'), '/o2-urgent', 'but by higher priorities');
select pg_temp.finish('/o1-first', 0);
select is(pg_temp.take(10, '_o1', '_o2'), '/o1-misfit /o2-equal /o2-lower', 'until it fits');

-- --- an agent that moved -------------------------------------------------------------------------
select configure_endpoint('_old', 2), configure_endpoint('_new', 3);
select pg_temp.agent('_mv', 2, null, '_old'), pg_temp.agent('_stays', null, null, '_old'), pg_temp.agent('_there', null, null, '_new');
select pg_temp.enqueue('_mv', '/v1 /v2 /v3 /v4'), pg_temp.enqueue('_stays', '/o1 /o2'), pg_temp.enqueue('_there', '/n1 /n2 /n3 /n4');
select is(pg_temp.take(10, '_mv'), '/v1 /v2', '(an agent at its limit)');
select configure_agent('_mv', model_endpoint => '_new');
select is(pg_temp.take(10, '_mv'), null, 'attempts at its old endpoint count against an agent that has moved');
select is(pg_temp.take(10, '_stays'), null, 'and against the old endpoint');
select is(pg_temp.take(2, '_there'), '/n1 /n2', 'not against the new one');
select pg_temp.finish('/v1');
select is(pg_temp.take(10, '_stays'), '/o1', 'as they end, the old endpoint');
select is(pg_temp.take(10, '_mv'), '/v3', 'and the agent have room');
select is(pg_temp.take(10, '_there'), null, 'what it claims now counts at the new one');
select configure_agent('_mv', model_endpoint => '_old');
select pg_temp.finish('/o1');
select is(pg_temp.take(10, '_mv'), null, 'back again, attempts at both count against it');
select is(pg_temp.take(10, '_stays'), '/o2', 'while the endpoint counts its own only');

select pg_temp.agent('_mt', null, 1000, '_mt old');
select pg_temp.enqueue('_mt', '/mt1:900 /mt2:200');
select is(pg_temp.take(10, '_mt'), '/mt1', '(900 of 1,000 tokens)');
select pg_temp.finish('/mt1', 900);
select configure_agent('_mt', model_endpoint => '_mt new');
select is(pg_temp.take(10, '_mt'), null, 'tokens of the last minute move along, too');
select advance('60 seconds');
select is(pg_temp.take(10, '_mt'), '/mt2', 'until the minute is over');

-- --- what _admit alone decides: the locks that the caller holds ----------------------------------
select pg_temp.agent('_l');
select pg_temp.enqueue('_l', '/l1 /l2 /l3');
create temporary table l as select id, model_endpoint_id as endpoint from agents where name = '_l';
create function pg_temp.admitted(exclusive integer[], shared integer[], only_agents integer[] default null, wanted integer default 10)
returns text language sql as $$
  select string_agg(t.document_path, ' ' order by t.id)
  from lakequeue.tasks t where t.id = any(lakequeue._admit(exclusive, shared, only_agents, wanted, false))
$$;
select is(pg_temp.admitted('{}', '{}'), null, 'without a lock nothing is admitted');
select is(pg_temp.admitted('{}', array[endpoint]), '/l1 /l2 /l3', 'a shared one is enough where there are no limits') from l;
select is(pg_temp.admitted(array[endpoint], '{}'), '/l1 /l2 /l3', 'an exclusive one in any case') from l;
select is(pg_temp.admitted(array[endpoint], '{}', array[id], 2), '/l1 /l2', 'never more than wanted') from l;
select is(pg_temp.admitted(array[endpoint], '{}', '{}'), null, 'only of the agents served') from l;
select configure_agent('_l', max_concurrent_tasks => 2);
select is(pg_temp.admitted('{}', array[endpoint]), null, 'where a limit has appeared meanwhile, a shared lock admits nothing') from l;
select is(pg_temp.admitted(array[endpoint], '{}'), '/l1 /l2', 'an exclusive one what fits') from l;
select configure_agent('_l', max_concurrent_tasks => 0), configure_endpoint('_l', max_tpm => 1);
select is(pg_temp.admitted('{}', array[endpoint]), null, 'a limit of the endpoint is one, too') from l;
select is(pg_temp.admitted(array[endpoint], '{}'), '/l1', '(one token, one page)') from l;

update model_endpoints set cooldown_until = _now() + interval '1 second' where name = '_l';
select is(pg_temp.admitted(array[endpoint], '{}'), null, 'nothing where a 429 has come between peek and lock') from l;
update model_endpoints set cooldown_until = null where name = '_l';
select pause_agent('_l', 'x');
select is(pg_temp.admitted(array[endpoint], '{}'), null, 'nor where the agent was paused between') from l;

set session authorization test_worker;
select throws_ok($$select lakequeue._admit('{}', '{}', null, 1, false)$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
