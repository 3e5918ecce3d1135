-- Counts what is spent of every limit and notes it in the books; from then on they carry an upper bound: what is
-- admitted, and what reports raise, is added at once and by exactly so much; nothing else moves it until the next count.
begin;
\ir scenarios.sql
select plan(142);

select configure_endpoint('_rc', max_concurrent_tasks => 50, max_tpm => 100000, max_input_tpm => 100000, max_output_tpm => 100000, max_rpm => 1000);
-- one that reserves its calls, one that does not; estimates of 100 tokens, a quarter of them output
select configure_agent('_rc a', model_endpoint => '_rc', max_tpm => 50000, tokens_per_task => 100, tokens_per_page => 0, estimate_factor => 1);
select configure_agent('_rc r', model_endpoint => '_rc', max_rpm => 500, tokens_per_task => 100, tokens_per_page => 0, reserves_calls => true, estimate_factor => 1);
create function pg_temp.here() returns integer[] language sql as $$ select array(select e.id from lakequeue.model_endpoints e where e.name like '\_rc%') $$;
-- used, by holder: 'tasks tokens input output requests'
create function pg_temp.used(from_books boolean, agent text default null) returns text language sql as $$
  select (select string_agg(coalesce(trim_scale(u.n)::text, '?'), ' ' order by u.kind) from unnest(l.used) with ordinality u(n, kind))
  from lakequeue._limits(pg_temp.here(), from_books) l left join lakequeue.agents g on g.id = l.agent_id
  where g.name is not distinct from used.agent
$$;
create function pg_temp.same(also_booked boolean default true) returns boolean language sql as $$
  select count(*) > 0 and bool_and(c.used is not distinct from t.used and (c.booked is not distinct from t.booked or not also_booked))
  from lakequeue._limits(pg_temp.here(), true) c
  full join lakequeue._limits(pg_temp.here(), false) t on (t.endpoint_id, coalesce(t.agent_id, 0)) = (c.endpoint_id, coalesce(c.agent_id, 0))
$$;
create temporary table claims (n integer generated always as identity, attempt bigint, token text);
-- claims one task of the agent and returns its number here
create function pg_temp.start(agent text) returns integer language sql as $$
  select lakequeue.enqueue_task(agent, '/x');
  insert into pg_temp.claims (attempt, token) select c.attempt_id, c.callback_token from lakequeue.dequeue_tasks('w', 1, array[agent]) c returning n
$$;
create function pg_temp.heartbeat(n integer, input bigint, output bigint) returns text language sql as $$
  select h.answer from pg_temp.claims c cross join lateral lakequeue.extend_leases(array[c.attempt], array[c.token], array[input], array[output]) h where c.n = heartbeat.n
$$;
create function pg_temp.finish(n integer, input bigint default null, output bigint default null) returns text language sql as $$
  select lakequeue.record_callback(c.attempt, c.token, 'success', '1', input_tokens => input, output_tokens => output, usage_complete => input is not null)
  from pg_temp.claims c where c.n = finish.n
$$;
create function pg_temp.trace(n integer, input bigint, output bigint, complete boolean default true) returns text language sql as $$
  select lakequeue.record_usage(c.attempt, input, output, complete => trace.complete) from pg_temp.claims c where c.n = trace.n
$$;
create function pg_temp.ask(n integer, input bigint, output bigint, call uuid default gen_random_uuid()) returns text language sql as $$
  select r.answer from pg_temp.claims c cross join lateral lakequeue.reserve_tokens(c.attempt, c.token, input, output, call) r where c.n = ask.n
$$;
create function pg_temp.settle(n integer, call uuid, input bigint, output bigint) returns text language sql as $$
  select lakequeue.settle_tokens(c.attempt, c.token, call, input, output) from pg_temp.claims c where c.n = settle.n
$$;
create function pg_temp.key(n integer) returns uuid language sql as $$ select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid $$;
create function pg_temp.raised(n integer) returns numeric[] language sql as $$ select a.raised from lakequeue.task_attempts a join pg_temp.claims c on c.attempt = a.id where c.n = raised.n $$;

-- --- what is counted is what the books say ---------------------------------------------------------
select lives_ok('select _recount(null)', 'no endpoints, nothing to do');
select is(pg_temp.used(true), '? ? ? ? ?', 'what nobody has counted is not known');
select _recount(pg_temp.here());
select is(pg_temp.used(true) || ', ' || pg_temp.used(true, '_rc a'), '0 0 0 0 0, 0 0 0 0 0', 'a count makes it known, also that it is nothing');
select is(pg_temp.start('_rc a'), 1, '(one starts)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(true, '_rc a') || ', ' || pg_temp.used(true, '_rc r'), '1 100 75 25 1, 1 100 75 25 1, 0 0 0 0 0', 'admitted is added');
select ok(pg_temp.same(), 'exactly as a count would have it');
select is(pg_temp.start('_rc r'), 2, '(one that reserves its calls)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(true, '_rc r'), '2 100 75 25 1, 1 0 0 0 0', 'uses its place, and nothing else yet');
select ok(pg_temp.same(), 'and what is booked agrees, too');
select is(pg_temp.ask(2, 30, 12, pg_temp.key(1)), 'granted', '(a call)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(true, '_rc r'), '2 142 105 37 2, 1 42 30 12 1', 'granted is added');
select ok(pg_temp.same(), 'exactly');
select is(pg_temp.ask(2, 30, 12, pg_temp.key(1)), 'granted', '(asked again, the answer was lost)');
select is(pg_temp.used(true), '2 142 105 37 2', 'adds nothing');

-- --- what falls stays until it is counted ----------------------------------------------------------
select is(pg_temp.settle(2, pg_temp.key(1), 10, 2), 'settled', '(the call used 12 of 42)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(false), '2 142 105 37 2, 2 112 85 27 2', 'a call settled at less');
select is(pg_temp.finish(1, 20, 5), 'accepted', '(25 of 100)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(false), '2 142 105 37 2, 1 37 30 7 2', 'a task, likewise');
select is(pg_temp.raised(n), null, 'nothing was raised') from generate_series(1, 2) n;
select _recount(pg_temp.here());
select is(pg_temp.used(true), '1 37 30 7 2', 'a count lowers the books');
select ok(pg_temp.same(), 'to exactly what is');
select advance('60 seconds');
select is(pg_temp.used(true) || ', ' || pg_temp.used(false), '1 37 30 7 2, 1 0 0 0 0', 'so does what has left the window');
select _recount(pg_temp.here());
select ok(pg_temp.same(), '(counted)');
select pg_temp.finish(2);

-- --- what reports raise is added at once -------------------------------------------------------------
select _recount(pg_temp.here());
select is(pg_temp.start('_rc a'), 3, '(one starts)');
select is(pg_temp.heartbeat(3, 60, 20), 'extended', '(80 of 100)');
select is(pg_temp.used(true), '1 100 75 25 1', 'within the estimate nothing is raised');
select is(pg_temp.raised(3), null, '(nor noted)');
select is(pg_temp.heartbeat(3, 60, 31), 'extended', '(91, but more output than estimated)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(true, '_rc a'), '1 100 75 31 1, 1 100 75 31 1', 'a kind by itself, for endpoint and agent');
select is(pg_temp.heartbeat(3, 130, 31), 'extended', '(161)');
select is(pg_temp.used(true), '1 161 130 31 1', 'by exactly so much');
select ok(pg_temp.same(), 'as a count has it');
select is(pg_temp.heartbeat(3, 130, 31), 'extended', '(once more)');
select is(pg_temp.used(true), '1 161 130 31 1', 'a repeat raises nothing');
select is(pg_temp.heartbeat(3, 120, 20), 'extended', '(less than was reported)');
select is(pg_temp.used(true), '1 161 130 31 1', 'nor does a lower number');
select is(pg_temp.used(true, '_rc r'), '0 0 0 0 0', 'another agent is not concerned');
select _recount(pg_temp.here());
select ok(pg_temp.same(), 'counted with the overrun in the window, it is not added twice');
select is(pg_temp.used(true), '1 161 130 31 1', '(161)');
select is(pg_temp.start('_rc a'), 4, '(another one)');
select is(pg_temp.used(true), '2 261 205 56 2', 'nor when the next task is added');
select is(pg_temp.heartbeat(3, 135, 31), 'extended', '(5 more)');
select is(pg_temp.used(true), '2 266 210 56 2', 'only what is new');
select ok(pg_temp.same(), '(as counted)');
select is(pg_temp.start('_rc a'), 5, '(a third)');
select ok(pg_temp.same(), 'in a page that was written between, too');

-- complete, and raised by a trace
select _recount(pg_temp.here());
select is(pg_temp.finish(3, 200, 40), 'accepted', '(it used 240)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(false), '3 440 350 90 3, 2 440 350 90 3', 'complete use above what was known is added');
select is(pg_temp.trace(3, 210, 45), 'recorded', '(its trace says 255)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(false), '3 455 360 95 3, 2 455 360 95 3', 'a later trace that says more, too');
select is(pg_temp.trace(3, 205, 50), 'recorded', '(again, another split: the larger of each stays)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(false), '3 460 360 100 3, 2 460 360 100 3', 'and what is larger of it');
select is(pg_temp.finish(4, 10, 1), 'accepted', '(11 of 100)');
select is(pg_temp.used(true), '3 460 360 100 3', 'complete use within the estimate raises nothing');
select is(pg_temp.trace(4, 30, 2), 'recorded', '(a trace says 32: it counts 32)');
select is(pg_temp.used(true), '3 481 380 101 3', 'raised against what it counted by then, not against the estimate: never too little');
select _recount(pg_temp.here());
select ok(pg_temp.same(), 'a count has all of it once');
select is(pg_temp.used(true), '1 392 315 77 3', '(255 + 5, 32 and 100)');
select is(pg_temp.trace(4, 30, 2, complete => false), 'kept', '(a worse report)');
select ok(pg_temp.same(), 'that is not recorded raises nothing');

-- a settle above the reservation
select is(pg_temp.start('_rc r'), 6, '(one that reserves its calls)');
select is(pg_temp.ask(6, 30, 12, pg_temp.key(2)) || pg_temp.ask(6, 30, 12, pg_temp.key(3)) || pg_temp.ask(6, 30, 12, pg_temp.key(4)), 'grantedgrantedgranted', '(calls)');
select _recount(pg_temp.here());
select is(pg_temp.used(true) || ', ' || pg_temp.used(true, '_rc r'), '2 518 405 113 6, 1 126 90 36 3', '(in full)');
select is(pg_temp.settle(6, pg_temp.key(2), 35, 14), 'settled', '(5 and 2 more)');
select is(pg_temp.used(true) || ', ' || pg_temp.used(true, '_rc r'), '2 525 410 115 6, 1 133 95 38 3', 'a call that used more than it reserved is added');
select ok(pg_temp.same(also_booked => false), 'as counted');
select is(pg_temp.settle(6, pg_temp.key(2), 99, 99), 'duplicate', '(again)');
select ok(pg_temp.same(also_booked => false), 'once');
select is(pg_temp.settle(6, pg_temp.key(3), null, null), 'settled', '(not known: what was reserved)');
select ok(pg_temp.same(also_booked => false), 'nothing to add');
select is(pg_temp.ask(6, 30, 12, pg_temp.key(5)), 'granted', '(another call)');
select ok(pg_temp.same(also_booked => false), 'an overrun that a new page has is not added to it again');
select is(pg_temp.settle(6, pg_temp.key(5), 30, 13), 'settled', '(one more of the answer alone)');
select ok(pg_temp.same(also_booked => false), 'either kind may be more');
select is(pg_temp.ask(6, 30, 12, pg_temp.key(6)) || pg_temp.settle(6, pg_temp.key(6), 31, null), 'grantedsettled', '(of the prompt alone, the answer not known)');
select ok(pg_temp.same(also_booked => false), '(likewise)');
select is(pg_temp.settle(6, pg_temp.key(4), 31, 1), 'settled', '(one more of one, 11 less of the other)');
select cmp_ok((select l.used[k] from _limits(pg_temp.here(), true) l where l.agent_id = (_agent('_rc r')).id), '>=',
              (select l.used[k] from _limits(pg_temp.here(), false) l where l.agent_id = (_agent('_rc r')).id), 'never less than it is: ' || (_kinds())[k])
from generate_series(1, 5) k;
select _recount(pg_temp.here());
select ok(pg_temp.same(), 'nor twice once it is counted');
select is(pg_temp.heartbeat(6, 500, 500), 'extended', '(its own words, of an attempt whose calls count)');
select ok(pg_temp.same(), 'raise nothing');
select is(pg_temp.finish(6, 900, 900), 'accepted', '(nor at its end)');

-- an overrun of what ended more than a minute ago counts nothing
select advance('1 hour');
select _recount(pg_temp.here());
select is(pg_temp.trace(3, 5000, 5000), 'recorded', '(a very late trace)');
select ok(pg_temp.same(), 'after the window an overrun is nobody''s');

-- --- what was raised leaves a window apart from what it raised ----------------------------------------
-- The sum of what was raised must not fall while a page lasts, or it would take away what others have admitted since.
create function pg_temp.never_less(description text) returns setof text language sql as $$
  select tap.cmp_ok(u.carried, '>=', u.counted, format('%s: %s of %s', description, u.kind, coalesce(g.name, 'the endpoint')))
  from lakequeue._limits(pg_temp.here(), true) c
  join lakequeue._limits(pg_temp.here(), false) t on (t.endpoint_id, coalesce(t.agent_id, 0)) = (c.endpoint_id, coalesce(c.agent_id, 0))
  left join lakequeue.agents g on g.id = c.agent_id
  cross join lateral unnest(lakequeue._kinds(), c.used, t.used) u(kind, carried, counted)
  where u.kind in ('tokens', 'input_tokens') and (g.name is null or u.counted > 0)
$$;
select is(pg_temp.heartbeat(max(n), 700, 0) || pg_temp.finish(max(n), 10, 0), 'extendedaccepted', '(an overrun that turned out to be none)')
from claims where n = (select max(n) - 1 from claims);
select _recount(pg_temp.here());
select pg_temp.start('_rc a');
select advance('61 seconds');
select pg_temp.never_less('an overrun that was taken back and has left');
select pg_temp.finish(max(n), 0, 0) from claims;

select pg_temp.start('_rc r');
select is(pg_temp.ask(max(n), 10, 10, pg_temp.key(20)) || pg_temp.settle(max(n), pg_temp.key(20), 500, 10), 'grantedsettled', '(a call of 20 that used 510)') from claims;
select advance('61 seconds');
select _recount(pg_temp.here());
select pg_temp.start('_rc a');
select is(pg_temp.finish(max(n) - 1), 'accepted', '(its run ends later)') from claims;
select advance('61 seconds');
select pg_temp.never_less('a call that had left before its attempt');

select is(pg_temp.heartbeat(max(n), 700, 0) || pg_temp.ask(max(n), 1, 1), 'extendedgranted', '(an overrun of one that reserves its calls from now on)') from claims;
select _recount(pg_temp.here());
select pg_temp.start('_rc a');
select is(pg_temp.finish(max(n) - 1), 'accepted', '(it ends)') from claims;
select advance('61 seconds');
select pg_temp.never_less('an attempt that began to reserve its calls');
select is(pg_temp.heartbeat(max(n), 200, 0), 'extended', '(another overrun)') from claims;
select pg_temp.never_less('and what is raised next');
select _recount(pg_temp.here());

-- a run that goes on though it has said what it used: it counts its estimate whatever is corrected
select pg_temp.start('_rc a');
select is(pg_temp.trace(max(n), 13, 4) || pg_temp.trace(max(n), 47, 424), 'recordedrecorded', '(a complete use that is raised)') from claims;
select _recount(pg_temp.here());
select is(lakequeue.store_result(c.attempt, c.token, '1'), 'accepted', '(its result is there, its run is)') from claims c where c.n = (select max(n) from claims);
update task_attempts set usage_source = 'callback' where id = (select attempt from claims where n = (select max(n) from claims));
select is(pg_temp.trace(max(n), 3, 2), 'recorded', '(a trace that says less)') from claims;
select pg_temp.never_less('a run that is not known to have ended');
select pg_temp.finish(max(n)) from claims;
select _recount(pg_temp.here());

-- what is taken back
select pg_temp.start('_rc a');
create temporary table known as select pg_temp.used(true) as at_first;
select is(pg_temp.heartbeat(max(n), 700, 0), 'extended', '(an overrun)') from claims;
select isnt(pg_temp.used(true), at_first, '(which is added)') from known;
select is(pg_temp.trace(max(n), 50, 1), 'recorded', '(there was none)') from claims;
select is(pg_temp.used(true), at_first, 'an overrun that is taken back is taken from the books, too') from known;
select is(pg_temp.heartbeat(max(n), 700, 0), 'extended', '(a worse report)') from claims;
select is(pg_temp.used(true), at_first, 'and does not come back') from known;
select is(pg_temp.trace(max(n), 90, 40), 'recorded', '(130)') from claims;
select is(pg_temp.finish(max(n)), 'accepted', '(ends)') from claims;
select pg_temp.start('_rc a');
select is(pg_temp.finish(max(n)), 'accepted', '(one whose use is not known)') from claims;
delete from known; insert into known select pg_temp.used(true);
select is(pg_temp.trace(max(n), 20, 1), 'recorded', '(21 of 100)') from claims;
select is(pg_temp.used(true), at_first, 'what a late report lowers stays until it is counted') from known;
select is(pg_temp.raised(max(n)), null, '(nothing is noted)') from claims;
select _recount(pg_temp.here());

-- --- what is rolled back leaves the books as they were -----------------------------------------------
select pg_temp.start('_rc a'), pg_temp.start('_rc r');
create temporary table before as select * from throttle_books;
savepoint dequeue;
select is(pg_temp.start('_rc a') > 0, true, '(a dequeue)');
select isnt_empty('select * from throttle_books except select * from before', '(has written)');
rollback to dequeue;
select set_eq('select * from throttle_books', 'select * from before', 'a dequeue');
savepoint calls;
select is(pg_temp.ask(max(n), 30, 12, pg_temp.key(9)), 'granted', '(a call)') from claims;
select isnt_empty('select * from throttle_books except select * from before', '(has written)');
rollback to calls;
select set_eq('select * from throttle_books', 'select * from before', 'a call');
savepoint report;
select is(pg_temp.heartbeat(max(n) - 1, 1000, 1000), 'extended', '(an overrun)') from claims;
rollback to report;
select set_eq('select * from throttle_books', 'select * from before', 'a report');
select ok(pg_temp.same(), 'and they are true');

-- --- several endpoints, and no others ----------------------------------------------------------------
select configure_endpoint('_rc2', max_rpm => 10), configure_agent('_rc2', model_endpoint => '_rc2', max_concurrent_tasks => 3);
create temporary table pages as select * from throttle_books;
select _recount(array(select id from model_endpoints where name = '_rc2'));
select results_eq($$select k.scope, k.no, k.used from throttle_books k where not exists (select from pages p where p = k) order by 1$$,
  $$values ('agent', 1::bigint, '{0,0,0,0,0}'::numeric[]), ('endpoint', 1, '{0,0,0,0,0}')$$, 'every holder of the endpoints that are asked for, and nobody else');
select set_eq($$select scope, scope_id from pages$$, $$select scope, scope_id from throttle_books where (scope, scope_id) not in (
  values ('endpoint', (select id from model_endpoints where name = '_rc2')), ('agent', (_agent('_rc2')).id))$$, '(all others as they were)');

set session authorization test_worker;
select throws_ok('select lakequeue._recount(array[1])', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
