-- explain_throttle for many agents, and which of their limits bind and which is the tightest.
begin;
\ir scenarios.sql
select no_plan();

select configure_endpoint('e', max_concurrent_tasks => 3, max_tpm => 1000);
select configure_agent('a', model_endpoint => 'e', tokens_per_task => 0, tokens_per_page => 1, estimate_factor => 1, max_tpm => 700),
       configure_agent('b', model_endpoint => 'e', tokens_per_task => 0, tokens_per_page => 1, estimate_factor => 1), configure_agent('free', model_endpoint => 'free');
create function pg_temp.told(agents text[]) returns setof text language sql as $$
  select format('%s: %s %s, %s taken%s%s', x.agent, x.scope, x.kind, round(x.taken, 2), case when x.binds then ', binds' end,
                case when x.tightest then ', tightest' end)
  from lakequeue.explain_throttles(agents) x
$$;
create function pg_temp.same(agent text) returns boolean language sql as $$
  select array(select to_jsonb(x) from lakequeue.explain_throttle(agent) x)
       = array(select to_jsonb(x) - array['agent', 'taken', 'binds', 'tightest'] from lakequeue.explain_throttles(array[agent]) x)
$$;

select results_eq($$select pg_temp.told(array['b', 'a', 'free'])$$, array[
  'a: endpoint tasks, 0.00 taken, tightest', 'a: endpoint tokens, 0.00 taken', 'a: agent tokens, 0.00 taken',
  'b: endpoint tasks, 0.00 taken, tightest', 'b: endpoint tokens, 0.00 taken'],
  'by agent, the endpoint''s limits first; where nothing is taken the first is the tightest; no limits, no rows');
select is(array(select pg_temp.told(null)), array(select pg_temp.told(array['a', 'b', 'free'])), 'null means all');
select is_empty($$select pg_temp.told('{}')$$, 'none means none');

select enqueue_task('a', '/1.pdf', page_count => 500), enqueue_task('b', '/2.pdf', page_count => 300);
create temporary table run as select * from dequeue_tasks('w', 2, array['a', 'b']);
select results_eq($$select pg_temp.told(array['a', 'b'])$$, array[
  'a: endpoint tasks, 0.67 taken', 'a: endpoint tokens, 0.80 taken, tightest', 'a: agent tokens, 0.71 taken',
  'b: endpoint tasks, 0.67 taken', 'b: endpoint tokens, 0.80 taken, tightest'],
  'while nothing waits none binds, and the one of which most is taken is the tightest');
select enqueue_task('a', '/3.pdf', page_count => 201), enqueue_task('b', '/4.pdf', page_count => 200);
select advance('10 seconds');
select results_eq($$select pg_temp.told(array['a', 'b'])$$, array[
  'a: endpoint tasks, 0.67 taken', 'a: endpoint tokens, 0.80 taken, binds, tightest', 'a: agent tokens, 0.71 taken, binds',
  'b: endpoint tasks, 0.67 taken', 'b: endpoint tokens, 0.80 taken, tightest'],
  'what the next task waits for binds; what it fits into does not');
select ok(pg_temp.same(agent), 'all else is what explain_throttle tells: ' || agent) from unnest(array['a', 'b', 'free']) agent;

select configure_endpoint('e', max_concurrent_tasks => 2);
select results_eq($$select pg_temp.told(array['a'])$$, array[
  'a: endpoint tasks, 1.00 taken, binds, tightest', 'a: endpoint tokens, 0.80 taken, binds', 'a: agent tokens, 0.71 taken, binds'],
  'of several that bind the tightest is the one of which nobody knows when it will have room');
select configure_endpoint('e', max_concurrent_tasks => 3);
select report(r.attempt_id, 'success', '1', input_tokens => 450, output_tokens => 0, usage_complete => true) from run r where r.agent = 'a';
select advance('20 seconds');
select report(r.attempt_id, 'success', '1', input_tokens => 400, output_tokens => 0, usage_complete => true) from run r where r.agent = 'b';
select configure_agent('a', max_tpm => 600);
select enqueue_task('a', '/5.pdf', priority => 9, page_count => 560);
select is(array(select format('%s %s fits in %s%s', x.scope, x.kind, x.fits_in, case when x.tightest then ', tightest' end) from explain_throttles(array['a']) x),
  array['endpoint tasks fits in 00:00:00', 'endpoint tokens fits in 00:00:40, tightest', 'agent tokens fits in 00:00:40'],
  'else the one that has room last; of equals the one of which most is taken');
select enqueue_task('a', '/6.pdf', priority => 9, page_count => 601), cancel_task(t.id) from tasks t where t.document_path = '/5.pdf';
select is(array(select format('%s %s fits in %s%s', x.scope, x.kind, x.fits_in, case when x.tightest then ', tightest' end) from explain_throttles(array['a']) x),
  array['endpoint tasks fits in 00:00:00', 'endpoint tokens fits in 00:01:00, tightest', 'agent tokens fits in 00:00:40'],
  'as here');
select is((select count(*) from explain_throttles() x where x.tightest), 2::bigint, 'each agent with limits has one');

select throws_ok($$select * from explain_throttles(array['a', 'no such agent'])$$, 'LQ404', null, 'an unknown agent');
select not_for(login, $$select * from lakequeue.explain_throttles()$$) from unnest(array['test_app', 'test_worker', 'test_agent', 'test_stranger']) login;
set session authorization test_reader;
select isnt_empty($$select * from lakequeue.explain_throttles()$$, 'a reader may ask');
set session authorization test_web;
select isnt_empty($$select * from lakequeue.explain_throttles()$$, 'so may the web process');
set session authorization test_owner;
select * from finish();
rollback;
