-- The throttle (rules 3 to 5, Q3), seen through dequeue_tasks: concurrency, tokens per minute and both, of agents and of
-- the endpoints they share, and who may pass a task that does not fit, for how long.
begin;
\ir scenarios.sql
select plan(130);

select set_clock('2026-03-01 09:00+00');
-- Agents here estimate a task by its pages alone: 1 page, 1 token. Runs outlive an expired lease by 5 minutes.
create function pg_temp.agent(agent text, max_concurrent_tasks integer default null, max_tpm bigint default null, endpoint text default null)
returns void language sql as $$
  select lakequeue.configure_agent(agent, model_endpoint => endpoint, max_concurrent_tasks => max_concurrent_tasks,
                                   max_tpm => max_tpm, tokens_per_task => 0, tokens_per_page => 1, estimate_factor => 1, lease_duration => '1 hour',
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
select pg_temp.enqueue('_big', '/big2:50000 /small3:10 /small4:10');
select is(pg_temp.take(10, '_big'), '/small3 /small4', 'it does not start beside others; those that fit pass it');
select pg_temp.finish('/urgent', 10), pg_temp.finish('/small1', 10), pg_temp.finish('/small2', 10), pg_temp.finish('/small3', 10);
select advance('2 minutes');
select pg_temp.enqueue('_big', '/small5:10');
select is(pg_temp.take(10, '_big'), null, 'but not for longer than two minutes');
select pg_temp.finish('/small4', 10);
select is(pg_temp.take(10, '_big'), null, 'nor does it start within a minute of the last one');
select advance('60 seconds');
select is(pg_temp.take(10, '_big'), '/big2', 'then it has its turn');
select pg_temp.finish('/big2', 0);
select is(pg_temp.take(10, '_big'), '/small5', 'what turned out to need nothing counts nothing');

select configure_endpoint('_bigshared', max_tpm => 10000);
select pg_temp.agent('_bs1', null, 2000, '_bigshared'), pg_temp.agent('_bs2', null, null, '_bigshared');
select pg_temp.enqueue('_bs2', '/bs2:6000'), pg_temp.enqueue('_bs1', '/bs1a:3000 /bs1b:1');
select is(pg_temp.take(10, '_bs1', '_bs2'), '/bs2 /bs1a', 'larger than its agent''s limit only, it runs beside other agents');
select is(pg_temp.take(10, '_bs1', '_bs2'), null, 'but alone within its agent');
select pg_temp.enqueue('_bs2', '/bs2b:20000', 6);
select is(pg_temp.take(10, '_bs1', '_bs2'), null, 'larger than the endpoint''s limit, it waits for all agents of the endpoint');
select pg_temp.finish('/bs2', 0), pg_temp.finish('/bs1a', 0);
select is(pg_temp.take(10, '_bs1', '_bs2'), '/bs2b', 'then it runs alone');

-- --- rule 5: who passes a misfit, and for how long -------------------------------------------------
select configure_endpoint('_m', max_tpm => 10000);
select pg_temp.agent('_m1', null, null, '_m'), pg_temp.agent('_m2', null, null, '_m'), pg_temp.agent('_elsewhere', null, 10000);
create function pg_temp.passed_since(path text) returns interval language sql as
$$ select lakequeue._now() - t.passed_over_at from lakequeue.tasks t where t.document_path = path $$;
select pg_temp.enqueue('_m1', '/m-first:6000', 5);
select advance('1 second');
select pg_temp.enqueue('_m1', '/m-misfit:5000 /m-later:10', 5), pg_temp.enqueue('_elsewhere', '/e:10', 0);
select is(pg_temp.take(1, '_m1', '_m2', '_elsewhere'), '/m-first', '(6,000 of 10,000)');
select is(pg_temp.passed_since('/m-misfit'), null, 'what only waits its turn is not passed over');
select is(pg_temp.take(10, '_m1', '_m2', '_elsewhere'), '/m-later /e', 'later tasks that fit pass one that does not');
select is(pg_temp.passed_since('/m-misfit'), '0', 'from then on it is passed over');
select advance('1 minute 59 seconds');
select pg_temp.enqueue('_m2', '/m2-later:10', 5), pg_temp.enqueue('_m1', '/m-lower:10', 4);
select is(pg_temp.take(10, '_m1', '_m2'), '/m2-later /m-lower', 'also by other agents of the endpoint, and by lower priorities');
select is(pg_temp.passed_since('/m-misfit'), '1 minute 59 seconds', 'which does not start the time anew');
select advance('1 second');
select pg_temp.enqueue('_m2', '/m2-later2:10', 5), pg_temp.enqueue('_m1', '/m-lower2:10', 0), pg_temp.enqueue('_elsewhere', '/e2:10', 0);
select is(pg_temp.take(10, '_m1', '_m2', '_elsewhere'), '/e2', 'after two minutes nobody passes it within its endpoint; others go on');
select is(pg_temp.take(10, '_m2'), null, 'not even through a dequeue that does not serve its agent');
select pg_temp.enqueue('_m2', '/m2-urgent:1000', 6), pg_temp.enqueue('_m1', '/m-urgent:10', 9);
select is(pg_temp.take(10, '_m1', '_m2'), '/m-urgent /m2-urgent', 'only higher priorities do');
select configure_endpoint('_m', max_passed_over => '5 minutes');
select is(pg_temp.take(10, '_m1', '_m2'), '/m2-later2 /m-lower2', 'the time is the endpoint''s setting');
select configure_endpoint('_m', max_passed_over => '2 minutes');
select pg_temp.finish('/m-first', 0);
select pg_temp.enqueue('_m2', '/m2-later3:10', 5);
select is(pg_temp.take(10, '_m1', '_m2'), '/m-misfit /m2-later3', 'when it fits it goes, and the others after it');
select is(pg_temp.passed_since('/m-misfit'), null, 'and if it comes back it is as good as new');

-- one that its agent's own limit holds up holds up its agent only
select configure_endpoint('_o', max_tpm => 100000);
select pg_temp.agent('_o1', null, 1000, '_o'), pg_temp.agent('_o2', null, null, '_o');
select pg_temp.enqueue('_o1', '/o1-first:600 /o1-misfit:500');
select is(pg_temp.take(10, '_o1'), '/o1-first', '(600 of its agent''s 1,000)');
select pg_temp.enqueue('_o2', '/o2a:10');
select is(pg_temp.take(10, '_o1', '_o2'), '/o2a', 'another agent of the endpoint goes on');
select is(pg_temp.passed_since('/o1-misfit'), null, 'without passing it: they do not share the limit that it lacks');
select pg_temp.enqueue('_o1', '/o1-later:10');
select is(pg_temp.take(10, '_o1', '_o2'), '/o1-later', 'a task of its own agent');
select is(pg_temp.passed_since('/o1-misfit'), '0', 'passes it');
select advance('2 minutes');
select pg_temp.enqueue('_o1', '/o1-later2:10'), pg_temp.enqueue('_o2', '/o2b:10');
select is(pg_temp.take(10, '_o1', '_o2'), '/o2b', 'in the end its own agent waits for it, the other does not');

-- no further than 64 tasks ahead
select pg_temp.agent('_far', null, 1000);
select pg_temp.enqueue('_far', '/far-first:600');
select is(pg_temp.take(10, '_far'), '/far-first', '(600 of 1,000)');
select pg_temp.enqueue('_far', string_agg('/far' || n || ':500', ' ')) from generate_series(1, 64) n;
select pg_temp.enqueue('_far', '/far-last:10');
select is(pg_temp.take(1, '_far'), '/far-last', 'a look ahead goes past 64 tasks that do not fit');
select pg_temp.enqueue('_far', '/far65:500 /far-last2:10');
select is(pg_temp.take(1, '_far'), null, 'and no further');

-- --- agents that reserve their calls (rule 4b): admitted by what is booked -----------------------
select configure_endpoint('_r', max_tpm => 1000);
select pg_temp.agent('_r1', null, null, '_r'), pg_temp.agent('_r2', null, null, '_r');
select configure_agent('_r1', reserves_calls => true);
select pg_temp.enqueue('_r1', '/r1:400 /r2:500 /r3:800 /r4:1');
select is(pg_temp.take(10, '_r1'), '/r1 /r2 /r3', 'they start while less than the limit is booked');
select pg_temp.enqueue('_r2', '/r5:1');
select is(pg_temp.take(10, '_r1', '_r2'), null, 'then neither they nor others');
select pg_temp.finish('/r1'), pg_temp.finish('/r3');
select is(pg_temp.take(10, '_r2'), '/r5', 'what has ended is not booked: its calls would count, and it made none');
select is(pg_temp.take(10, '_r1', '_r2'), '/r4', '(and so on)');
select pg_temp.enqueue('_r2', '/r6:499'), pg_temp.enqueue('_r2', '/r7:498');
select is(pg_temp.take(10, '_r2'), '/r7', 'others fit beside what is booked, or not');

select pg_temp.agent('_rb', null, 1000);
select configure_agent('_rb', reserves_calls => true);
select pg_temp.enqueue('_rb', '/rb1:5000 /rb2:5000 /rb3:5000');
select is(pg_temp.take(10, '_rb'), '/rb1', 'larger than the limit it books all of it');
select advance('61 seconds');
select is(pg_temp.take(10, '_rb'), null, 'for as long as it runs, by its estimate while nothing is known of its agent''s runs');
update agents set run_input_tpm = 600, run_output_tpm = 200, run_rpm = 3 where name = '_rb';
select is(pg_temp.take(10, '_rb'), '/rb2', 'and from when their pace is known by that: 800 of 1,000, room for another');
select is(pg_temp.take(10, '_rb'), null, 'which fills it');

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
create function pg_temp.admitted(
  exclusive integer[], shared integer[], agents integer[] default array[(_agent('_l')).id], wanted integer default 10, only_look boolean default false)
returns text language sql as $$
  select string_agg(t.document_path, ' ' order by t.id)
  from lakequeue._admit(exclusive, shared, agents, wanted, false, only_look) a
  join lakequeue.tasks t on t.id = any(a.ids)
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

-- --- and the books it keeps: they decide as long as they leave room --------------------------------
select configure_agent('_l', max_concurrent_tasks => 2), configure_endpoint('_l', max_tpm => 100);
create function pg_temp.page(scope text, of text) returns text language sql as $$
  select format('%s: %s/%s', k.no, trim_scale(k.used[case k.scope when 'agent' then 1 else 2 end]), trim_scale(k.booked[case k.scope when 'agent' then 1 else 2 end]))
  from lakequeue.throttle_books k
  where k.scope = page.scope
    and k.scope_id = case page.scope when 'agent' then (select a.id from lakequeue.agents a where a.name = of)
                                     else (select e.id from lakequeue.model_endpoints e where e.name = of) end
$$;
create function pg_temp.forge(used numeric, booked numeric, scope text default null) returns void language sql as $$
  update lakequeue.throttle_books k set no = 100, used = array_fill(forge.used, array[5]), booked = array_fill(forge.booked, array[5])
  from l where (k.scope, k.scope_id) in (('endpoint', l.endpoint), ('agent', l.id)) and k.scope = coalesce(forge.scope, k.scope)
$$;
select pg_temp.admitted(array[endpoint], '{}') from l;
select pg_temp.forge(0, 0);
select is(pg_temp.admitted(array[endpoint], '{}', wanted => 1), '/l1', 'one more task') from l;
select is(pg_temp.page('agent', '_l') || ', ' || pg_temp.page('endpoint', '_l'), '101: 1/1, 101: 1/1', 'is added to the page of every holder, used and booked');
select is(pg_temp.admitted(array[endpoint], '{}', wanted => 1), '/l1', '(not claimed, hence admitted again)') from l;
select is(pg_temp.page('agent', '_l') || ', ' || pg_temp.page('endpoint', '_l'), '102: 2/2, 102: 2/2', 'to what they said, without a count');
select is(pg_temp.admitted(array[endpoint], '{}', wanted => 1), '/l1', 'a bound that leaves no room is counted, and has room') from l;
select is(pg_temp.page('agent', '_l') || ', ' || pg_temp.page('endpoint', '_l'), '104: 1/1, 104: 1/1', 'of every holder there, before the task is added');
select pg_temp.forge(100, 0, 'endpoint');
select is(pg_temp.admitted(array[endpoint], '{}', wanted => 1), '/l1', 'likewise where a limit per minute has none left') from l;
select is(pg_temp.page('agent', '_l') || ', ' || pg_temp.page('endpoint', '_l'), '106: 1/1, 102: 1/1', 'though all others had');
select pg_temp.forge(null, null);
select is(pg_temp.admitted(array[endpoint], '{}', wanted => 1), '/l1', 'what is not known is counted') from l;
select is(pg_temp.page('agent', '_l') || ', ' || pg_temp.page('endpoint', '_l'), '102: 1/1, 102: 1/1', '(every holder again)');
select pg_temp.forge(-5, -5);
select is(pg_temp.admitted(array[endpoint], '{}'), '/l1 /l2 /l3', 'who believes the books goes by them') from l;
select pg_temp.forge(2, 2);
select says_and_changes_nothing($$select pg_temp.admitted(array[endpoint], '{}', only_look => true) from l$$, '/l1 /l2',
  'who only looks counts where they leave no room, and writes nothing');
select pg_temp.forge(-5, -5);
select is(pg_temp.admitted(array[endpoint], '{}', only_look => true), '/l1 /l2 /l3', 'and believes them where they do') from l;
update tasks t set retry_at = _now() from l where t.agent_id = l.id;
select is(pg_temp.admitted(array[endpoint], '{}'), null, '(no task is ready)') from l;
select is(pg_temp.page('agent', '_l'), '100: -5/-5', 'without a task no page is written');
update tasks t set retry_at = null from l where t.agent_id = l.id;

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
