-- Reservations of single model calls (rule 4b): what is granted never exceeds a limit in any 60 seconds; who waits is told
-- how long, in order of priority and asking; answers that got lost, runs that must stop, calls that never fit.
begin;
\ir scenarios.sql
select no_plan();

create temporary table calls (name text primary key, key uuid not null default gen_random_uuid(), attempt bigint);
grant all on calls to public;
create function pg_temp.key(name text) returns uuid language sql as $$ select c.key from pg_temp.calls c where c.name = key.name $$;
-- asks for a call of that name: granted, wait, lost, cancel
create function pg_temp.ask(name text, attempt bigint, input bigint, output bigint) returns text language plpgsql as $$
begin
  insert into pg_temp.calls (name, attempt) values (ask.name, ask.attempt) on conflict do nothing;
  return (select r.answer from lakequeue.reserve_tokens(attempt, scenario.token(attempt), input, output, pg_temp.key(ask.name)) r);
end $$;
create function pg_temp.wait_of(name text, attempt bigint, input bigint, output bigint) returns interval language plpgsql as $$
begin
  insert into pg_temp.calls (name, attempt) values (wait_of.name, wait_of.attempt) on conflict do nothing;
  return (select r.wait from lakequeue.reserve_tokens(attempt, scenario.token(attempt), input, output, pg_temp.key(wait_of.name)) r);
end $$;
create function pg_temp.settle(name text, input bigint default null, output bigint default null) returns text language sql as $$
  select lakequeue.settle_tokens(c.attempt, scenario.token(c.attempt), c.key, input, output) from pg_temp.calls c where c.name = settle.name
$$;
-- an attempt of an agent that reserves its calls, at an endpoint
create function pg_temp.run_at(endpoint text, agent text, priority integer default 5) returns bigint language plpgsql as $$
declare v_attempt bigint;
begin
  perform configure_agent(agent, model_endpoint => endpoint, reserves_calls => true, tokens_per_task => 0, tokens_per_page => 1, estimate_factor => 1,
                          max_concurrent_tasks => 1000);
  perform enqueue_task(agent, '/a.pdf', priority);
  select d.attempt_id into strict v_attempt from dequeue_tasks('w', 1, array[agent]) d;
  return v_attempt;
end $$;

-- --- the answer -----------------------------------------------------------------------------------
select configure_endpoint('plain');
create temporary table p as select pg_temp.run_at('plain', 'plain') as attempt;
select is(pg_temp.ask('p1', attempt, 1000000000, 1000000000), 'granted', 'without limits every call may start') from p;
select results_eq($$select answer, wait from reserve_tokens((select attempt from p), token((select attempt from p)), 1, 1)$$,
  $$values ('granted', null::interval)$$, 'no wait is told then');
create temporary table named as select r.* from p, reserve_tokens(p.attempt, token(p.attempt), 1, 1) r;
select isnt((select call_id from named), null, 'a call without a name is given one');
select is(settle_tokens(attempt, token(attempt), call_id, 1, 1), 'settled', 'by which it is settled') from p, named;
select results_eq($$select call_id from p, reserve_tokens(p.attempt, token(p.attempt), 1, 1, pg_temp.key('p1'))$$,
  $$select pg_temp.key('p1')$$, 'the answer names the call');

-- --- each kind of limit -----------------------------------------------------------------------------
select configure_endpoint('kinds');
create temporary table k as select pg_temp.run_at('kinds', 'kinds') as attempt;
select configure_endpoint('kinds', max_tpm => 1000);
select is(pg_temp.ask('k1', attempt, 600, 300), 'granted', 'tokens: 900 of 1,000') from k;
select is(pg_temp.ask('k2', attempt, 50, 51), 'wait', 'one too many waits') from k;
select is(pg_temp.ask('k3', attempt, 50, 50), 'wait', 'and one that asked later does not take its room') from k;
select is(pg_temp.ask('k2', attempt, 50, 50), 'granted', 'made smaller, it fits to the last token') from k;
select throws_ok(format('select pg_temp.ask(''k2'', %s, %s)', attempt, more), 'LQ409', null, 'once granted it cannot be made larger: ' || more)
from k, unnest(array['51, 50', '50, 51']) more;
select is(pg_temp.ask('k2', attempt, 50, 49), 'granted', 'to ask for less is to ask again') from k;
select is(pg_temp.settle('k1', 500, 100), 'settled', '(300 less than reserved)');
select is(pg_temp.ask('k3', attempt, 50, 50), 'granted', 'what was not used is free at once') from k;
select is(pg_temp.ask('k4', attempt, 150, 50), 'granted', '(1,000 of 1,000)') from k;
select is(pg_temp.ask('k5', attempt, 1, 0), 'wait', 'full') from k;
select advance('59.999 seconds');
select is(pg_temp.ask('k5', attempt, 1, 0), 'wait', 'what ended counts for a minute') from k;
select advance('0.001 seconds');
select is(pg_temp.ask('k5', attempt, 500, 100), 'granted', 'and not longer; what is under way counts on') from k;
select is(pg_temp.ask('k6', attempt, 1, 0), 'wait', '(full)') from k;

select configure_endpoint('kinds', max_tpm => 0, max_input_tpm => 1000);
select is(pg_temp.ask('k6', attempt, 100, 900000), 'granted', 'prompt tokens: 950 of 1,000, whatever the answers') from k;
select is(pg_temp.ask('k7', attempt, 200, 0), 'wait', 'no more') from k;
select configure_endpoint('kinds', max_input_tpm => 0, max_output_tpm => 901000);
select is(pg_temp.ask('k7', attempt, 900000, 750), 'granted', 'answer tokens: 901,000, whatever the prompts') from k;
select is(pg_temp.ask('k8', attempt, 0, 1), 'wait', 'no more') from k;
select configure_endpoint('kinds', max_output_tpm => 0, max_rpm => 7);
select is(pg_temp.ask('k8', attempt, 0, 0), 'granted', 'requests: 7 of 7') from k;
select is(pg_temp.ask('k9', attempt, 0, 0), 'wait', 'no more') from k;
select configure_endpoint('kinds', max_rpm => 8);
select is(pg_temp.ask('k9', attempt, 0, 0), 'granted', 'a raised limit counts at once') from k;

-- --- how long to wait -----------------------------------------------------------------------------
select configure_endpoint('waits', max_rpm => 1);
create temporary table w as select pg_temp.run_at('waits', 'waits') as attempt;
select is(pg_temp.ask('w1', attempt, 1, 1), 'granted', '(the one request)') from w;
select cmp_ok(pg_temp.wait_of('w2', attempt, 1, 1), '<=', interval '1 second', 'while it is under way, it may end any time: look soon') from w;
select is(pg_temp.settle('w1'), 'settled', '(it has ended)');
select advance('59.7 seconds');
select is(pg_temp.wait_of('w2', attempt, 1, 1), '0.3 seconds', 'then until it has left the window') from w;
select advance('0.3 seconds');
select is(pg_temp.ask('w2', attempt, 1, 1), 'granted', 'and that is enough') from w;

-- --- order ------------------------------------------------------------------------------------------
create temporary table o as select pg_temp.run_at('order', 'order', 5) as low, pg_temp.run_at('order', 'order', 9) as high;
select configure_endpoint('order', max_rpm => 1);
select is(pg_temp.ask('o0', low, 1, 1), 'granted', '(the one request)') from o;
select is(pg_temp.ask('o1', low, 1, 1), 'wait', 'the first waits') from o;
select is(pg_temp.ask('o2', low, 1, 1), 'wait', 'the second') from o;
select is(pg_temp.ask('o3', high, 1, 1), 'wait', 'an urgent one') from o;
select is(pg_temp.settle('o0'), 'settled', '(it has ended)');
select advance('55 seconds');
select is(pg_temp.ask('o1', low, 1, 1) || pg_temp.ask('o2', low, 1, 1) || pg_temp.ask('o3', high, 1, 1), 'waitwaitwait', '(all ask again)') from o;
select advance('5 seconds');
select is(pg_temp.ask('o2', low, 1, 1), 'wait', 'there is room for one, but not for whoever asks') from o;
select is(pg_temp.ask('o1', low, 1, 1), 'wait', 'nor for whoever asked first, where an urgent one waits') from o;
select is(pg_temp.ask('o3', high, 1, 1), 'granted', 'the urgent one goes first') from o;
select is(pg_temp.settle('o3'), 'settled', '(it has ended)');
select advance('60 seconds');
select is(pg_temp.ask('o2', low, 1, 1), 'granted', 'one that has not asked for 10 seconds holds up nobody') from o;
select is(pg_temp.ask('o1', low, 1, 1), 'wait', 'it waits again when it comes back') from o;

-- --- limits of an agent at a shared endpoint ------------------------------------------------------
select configure_endpoint('shared', max_tpm => 1000);
create temporary table s as select pg_temp.run_at('shared', 'small') as small, pg_temp.run_at('shared', 'large') as large;
select configure_agent('small', max_tpm => 100);
select is(pg_temp.ask('s1', small, 100, 0), 'granted', '(all of the small agent''s own limit)') from s;
select is(pg_temp.ask('s2', small, 100, 0), 'wait', 'its next call waits') from s;
select is(pg_temp.ask('s3', large, 900, 0), 'granted', 'other agents need not wait for that: not their limit') from s;
select is(pg_temp.settle('s1'), 'settled', '(it has ended)');
select is(pg_temp.settle('s3', 800, 0), 'settled', '(it has ended)');
select advance('1 second');
select is(pg_temp.ask('s4', large, 150, 0), 'wait', 'the endpoint''s limit is shared') from s;
select is(pg_temp.ask('s4', large, 100, 0), 'granted', 'to the last token') from s;

-- --- lost answers, and repeats ----------------------------------------------------------------------
select configure_endpoint('lost', max_rpm => 1);
create temporary table l as select pg_temp.run_at('lost', 'lost') as attempt;
select is(pg_temp.ask('l1', attempt, 1, 1), 'granted', '(an answer that is lost)') from l;
select is(pg_temp.ask('l1', attempt, 1, 1), 'granted', 'asking again gives the same answer') from l;
select is((select count(*) from model_calls m, l where m.attempt_id = l.attempt), 1::bigint, 'and takes nothing twice');
select pg_temp.settle('l1');
select refused(format('select pg_temp.ask(%L, %s, 1, 1)', 'l1', attempt), 'LQ409', 'a call that has ended cannot be made again') from l;

select configure_endpoint('lost', max_rpm => 9);
select pg_temp.run_at('lost', 'lost') as expired \gset
select is(pg_temp.ask('l2', :expired, 1, 1), 'granted', '(another, whose answer is lost)');
update task_attempts set status = 'expired', ended_at = _now(), presumed_dead_at = _now() + '5 minutes' where id = :expired;
select is(pg_temp.ask('l2', :expired, 1, 1), 'lost', 'asking again is no good to a run that has lost its task');

-- --- who may not go on ------------------------------------------------------------------------------
create temporary table stops as select pg_temp.run_at('plain', 'plain') as cancelled, pg_temp.run_at('plain', 'plain') as failed;
select matches(cancel_task(task_of(cancelled), actor => 'ops'), '^requested', '(a cancel is asked for)') from stops;
select is(pg_temp.ask('x1', cancelled, 1, 1), 'cancel', 'a run that is to be cancelled is told so') from stops;
select is(report(failed, 'failure'), 'accepted', '(an attempt has ended)') from stops;
select is(pg_temp.ask('x2', failed, 1, 1), 'lost', 'a run whose attempt was closed is told so') from stops;
select is((select count(*) from model_calls m, stops where m.attempt_id in (cancelled, failed)), 0::bigint, 'neither has reserved anything');

-- --- a cooldown (rule 11) ---------------------------------------------------------------------------
select is(pg_temp.ask('c1', attempt, 1, 1), 'granted', '(room is there)') from p;
select report_rate_limit(attempt, token(attempt), '30 seconds') from p;
select is(pg_temp.ask('c2', attempt, 1, 1), 'wait', 'after a 429 all calls wait') from p;
select advance('30 seconds');
select is(pg_temp.ask('c2', attempt, 1, 1), 'granted', 'until the endpoint has cooled down') from p;

-- --- beside an agent that does not reserve ---------------------------------------------------------
select configure_endpoint('beside', max_tpm => 1000);
create temporary table b as select pg_temp.run_at('beside', 'beside') as attempt;
select configure_agent('whole', model_endpoint => 'beside', tokens_per_task => 0, tokens_per_page => 1, estimate_factor => 1);
select enqueue_task('whole', '/a.pdf', page_count => 600);
select is((select count(*) from dequeue_tasks('w', 1, array['whole'])), 1::bigint, '(600 of 1,000 tokens, at any time)');
select is(pg_temp.ask('b1', attempt, 401, 0), 'wait', 'its whole estimate counts') from b;
select is(pg_temp.ask('b1', attempt, 400, 0), 'granted', 'the rest is for calls') from b;
select enqueue_task('whole', '/b.pdf', page_count => 1);
select is((select count(*) from dequeue_tasks('w', 1, array['whole'])), 0::bigint, 'which in turn count against it');
select is((select a.reserves_calls from task_attempts a join agents g on g.id = a.agent_id where g.name = 'whole'), false, '(it was claimed as one that does not reserve)');
select is(pg_temp.ask('b2', a.id, 1, 0), 'granted', 'if it asks after all, its calls count instead of its estimate')
from task_attempts a join agents g on g.id = a.agent_id where g.name = 'whole';
select is(pg_temp.ask('b3', attempt, 599, 0), 'granted', 'which is free then') from b;

-- --- an agent that moved ----------------------------------------------------------------------------
create temporary table m as select pg_temp.run_at('old', 'mover') as attempt;
select configure_agent('mover', model_endpoint => 'new', max_rpm => 2), configure_endpoint('old', max_tpm => 100);
create temporary table n as select pg_temp.run_at('new', 'mover') as attempt;
select is(pg_temp.ask('m1', attempt, 100, 0), 'granted', 'a run stays at the endpoint where it was claimed') from m;
select is(pg_temp.ask('m2', attempt, 1, 0), 'wait', 'with its limits') from m;
select is(pg_temp.ask('n1', attempt, 1, 0), 'granted', '(a run at the new one)') from n;
select is(pg_temp.ask('n2', attempt, 1, 0), 'wait', 'the agent''s own limit holds over both') from n;
select configure_endpoint('old', max_tpm => 0);
select is(pg_temp.ask('m2', attempt, 1, 0), 'wait', 'from both sides') from m;

-- --- what is refused --------------------------------------------------------------------------------
select configure_endpoint('tiny', max_tpm => 1000, max_output_tpm => 100);
create temporary table t as select pg_temp.run_at('tiny', 'tiny') as attempt;
select refused(format('select pg_temp.ask(%L, %s, 950, 51)', 't1', attempt), 'LQ413', 'a call that no window can hold') from t;
select refused(format('select pg_temp.ask(%L, %s, 1, 101)', 't1', attempt), 'LQ413', 'of any kind') from t;
select is((select count(*) from model_calls c, t where c.attempt_id = t.attempt), 0::bigint, 'it leaves nothing behind');
select is(pg_temp.ask('t1', attempt, 900, 100), 'granted', 'one as large as the limit is possible') from t;
select is(pg_temp.ask('t2', attempt, 900, 100), 'wait', '(another waits)') from t;
select configure_endpoint('tiny', max_tpm => 900);
select refused(format('select pg_temp.ask(%L, %s, 900, 100)', 't2', attempt), 'LQ413', 'a limit lowered meanwhile') from t;
select refused(format('select * from reserve_tokens(%s, %L, %s)', attempt, token(attempt), a.arguments), 'LQ400', a.why)
from t, (values ('null, 1', 'no prompt tokens'), ('1, null', 'no max_output_tokens'), ('-1, 1', 'negative'), ('1, -1', 'negative'),
                ('1000000001, 1', 'absurd'), ('1, 1000000001', 'absurd'), ('1, 1, null', 'no name')) a(arguments, why);
select refused(format('select * from reserve_tokens(%s, %L, 1, 1)', attempt, 'guess'), 'LQ401', 'a wrong token') from t;
select refused(format('select * from reserve_tokens(%s, null, 1, 1)', attempt), 'LQ401', 'none') from t;
select refused($$select * from reserve_tokens(-1, 'x', 1, 1)$$, 'LQ404', 'an unknown attempt');
select refused($$select * from reserve_tokens(null, 'x', 1, 1)$$, 'LQ404', 'none');

-- --- roles ------------------------------------------------------------------------------------------
create temporary table asking as select format('select answer from lakequeue.reserve_tokens(%s, %L, 1, 1)', attempt, token(attempt)) as statement from t;
grant select on asking to public;
select not_for(login, (select statement from asking)) from unnest(array['test_app', 'test_web', 'test_worker', 'test_reader', 'test_operator']) login;
select configure_endpoint('tiny', max_tpm => 0, max_output_tpm => 0);
select statement from asking \gset
set session authorization test_agent;
select results_eq(:'statement', array['granted'], 'an agent may ask');
set session authorization test_owner;

select * from finish();
rollback;
