-- Why an agent's next task does not start: a row per limit, with what is used by whom, what is asked and when it fits.
begin;
\ir scenarios.sql
select no_plan();

select configure_agent('free', model_endpoint => 'free');
select is_empty($$select * from explain_throttle('free')$$, 'no limits, no rows');

select configure_endpoint('e', max_concurrent_tasks => 3, max_tpm => 1000);
select configure_agent('a', model_endpoint => 'e', tokens_per_task => 0, tokens_per_page => 1, estimate_factor => 1, max_tpm => 700);
select configure_agent('b', model_endpoint => 'e', tokens_per_task => 0, tokens_per_page => 1, estimate_factor => 1);
create function pg_temp.explained(agent text) returns setof text language sql as $$
  select format('%s %s %s: %s/%s of %s, room %s, asks %s, %s', x.scope, x.name, x.kind, x.used, x.booked, x.ceiling, x.room, coalesce(x.demand::text, '-'),
                case when x.fits is null then '-' when x.fits then 'fits' else coalesce('fits in ' || x.fits_in, 'does not fit') end)
  from lakequeue.explain_throttle(agent) x
$$;
select results_eq($$select pg_temp.explained('a')$$, array[
  'endpoint e tasks: 0/0 of 3, room 3, asks -, -', 'endpoint e tokens: 0/0 of 1000, room 1000, asks -, -', 'agent a tokens: 0/0 of 700, room 700, asks -, -'],
  'nothing runs, nothing waits: the endpoint''s limits, then the agent''s own');
select enqueue_task('a', '/1.pdf', page_count => 500), enqueue_task('b', '/2.pdf', page_count => 300);
create temporary table run as select * from dequeue_tasks('w', 2, array['a', 'b']);
select advance('10 seconds');
select enqueue_task('a', '/3.pdf', page_count => 200);
select results_eq($$select pg_temp.explained('a')$$, array[
  'endpoint e tasks: 2/2 of 3, room 1, asks 1, fits', 'endpoint e tokens: 800/800 of 1000, room 200, asks 200, fits', 'agent a tokens: 500/500 of 700, room 200, asks 200, fits'],
  'what fits exactly, fits');
select results_eq($$select kind, used_by, waiting_since from explain_throttle('a')$$,
  $$values ('tasks', '{"a": 1, "b": 1}'::jsonb, _now()), ('tokens', '{"a": 500, "b": 300}', _now()), ('tokens', '{"a": 500}', _now())$$,
  'who uses it, and since when the next task waits');
select enqueue_task('a', '/4.pdf', priority => 9, page_count => 201);
select results_eq($$select pg_temp.explained('a')$$, array[
  'endpoint e tasks: 2/2 of 3, room 1, asks 1, fits', 'endpoint e tokens: 800/800 of 1000, room 200, asks 201, does not fit', 'agent a tokens: 500/500 of 700, room 200, asks 201, does not fit'],
  'the next task is the one that would be claimed; while all runs, nobody knows when it fits');
select is((select report(r.attempt_id, 'success', '1', input_tokens => 400, output_tokens => 0, usage_complete => true) from run r where r.agent = 'a'), 'accepted', '(one ends)');
select is((select report(r.attempt_id, 'success', '1', input_tokens => 300, output_tokens => 0, usage_complete => true) from run r where r.agent = 'b'), 'accepted', '(and the other)');
select enqueue_task('b', '/5.pdf', page_count => 301);
select advance('20 seconds');
select results_eq($$select pg_temp.explained('b')$$, array['endpoint e tasks: 0/0 of 3, room 3, asks 1, fits', 'endpoint e tokens: 700/700 of 1000, room 300, asks 301, fits in 00:00:40'],
  'what has ended leaves a minute after its end');
select enqueue_task('b', '/6.pdf', priority => 9, page_count => 5000);
select results_eq($$select pg_temp.explained('b')$$, array['endpoint e tasks: 0/0 of 3, room 3, asks 1, fits', 'endpoint e tokens: 700/700 of 1000, room 300, asks 5000, fits in 00:00:40'],
  'one that is larger than the limit, when all has left');
select advance('40 seconds');
select results_eq($$select pg_temp.explained('b')$$, array['endpoint e tasks: 0/0 of 3, room 3, asks 1, fits', 'endpoint e tokens: 0/0 of 1000, room 1000, asks 5000, fits'],
  'then it fits, alone');
select is((select count(*) from dequeue_tasks('w', 1, array['b'])), 1::bigint, '(as dequeue_tasks agrees)');

-- places
select configure_endpoint('e', max_concurrent_tasks => 1, max_tpm => 0);
select results_eq($$select pg_temp.explained('b')$$, array['endpoint e tasks: 1/1 of 1, room 0, asks 1, does not fit'], 'nobody knows when a place gets free');

-- an agent that reserves its calls
select configure_endpoint('r', max_rpm => 2), configure_agent('r', model_endpoint => 'r', reserves_calls => true);
select enqueue_task('r', '/1.pdf'), enqueue_task('r', '/2.pdf'), enqueue_task('r', '/3.pdf');
create temporary table reserving as select * from dequeue_tasks('w', 2, array['r']);
select results_eq($$select pg_temp.explained('r')$$, array['endpoint r requests: 0/2 of 2, room 0, asks 1, does not fit'], 'what is booked for its runs is told beside what they have used');
select is(reserved.answer, 'granted', '(a call)') from reserving r, reserve_tokens(r.attempt_id, r.callback_token, 1, 1) reserved;
select is((select answer from reserving r, reserve_tokens(r.attempt_id, r.callback_token, 1, 1) order by 1 limit 1), 'wait', '(one more waits)');
select results_eq($$select used, used_by, calls_waiting, calls_waiting_since from explain_throttle('r')$$, $$values (2::numeric, '{"r": 2}'::jsonb, 2::bigint, _now())$$,
  'calls that wait are told');

-- passed over
select configure_endpoint('p', max_tpm => 100), configure_agent('p', model_endpoint => 'p', tokens_per_task => 0, tokens_per_page => 1, estimate_factor => 1);
select enqueue_task('p', '/1.pdf', page_count => 60), enqueue_task('p', '/2.pdf', page_count => 60), enqueue_task('p', '/3.pdf', page_count => 1);
select is((select count(*) from dequeue_tasks('w', 10, array['p'])), 2::bigint, '(the second of three does not fit)');
select results_eq($$select waiting_since, passed_over_since from explain_throttle('p')$$, $$values (_now(), _now())$$, 'since when others pass it is told');

select throws_ok($$select * from explain_throttle('no such agent')$$, 'LQ404', null, 'an unknown agent');
select not_for(login, $$select * from lakequeue.explain_throttle('a')$$) from unnest(array['test_app', 'test_worker', 'test_agent', 'test_stranger']) login;
set session authorization test_reader;
select isnt_empty($$select * from lakequeue.explain_throttle('a')$$, 'a reader may ask');
set session authorization test_web;
select isnt_empty($$select * from lakequeue.explain_throttle('a')$$, 'so may the web process');
set session authorization test_owner;
select * from finish();
rollback;
