-- What an agent's work teaches: estimates from its last completed tasks, the pace of its runs from their calls.
begin;
\ir scenarios.sql
select no_plan();

-- one task of an agent, of so many pages, that used so many tokens
create function pg_temp.complete(agent text, pages integer, used bigint, complete boolean default true) returns void language plpgsql as $$
declare v_attempt bigint;
begin
  perform enqueue_task(agent, '/a.pdf', page_count => pages);
  select d.attempt_id into strict v_attempt from dequeue_tasks('w', 1, array[agent]) d;
  perform scenario.report(v_attempt, 'success', '1', input_tokens => used - used / 10, output_tokens => used / 10, usage_complete => complete);
end $$;
create function pg_temp.learnt(agent text) returns text language plpgsql as $$
begin
  perform lakequeue._learn((lakequeue._agent(agent)).id);
  return (select format('%s: x%s, %s, %s', s.learnt_from, round(s.estimate_factor::numeric, 3), coalesce(round(s.estimate_error_p50::numeric, 3)::text, '-'),
                        coalesce(round(s.estimate_error_p95::numeric, 3)::text, '-')) from lakequeue.agent_status(array[agent]) s);
end $$;
-- when it last did, and how often
create function pg_temp.lessons(agent text) returns text language sql as $$
  select format('%s ago, %s in all', lakequeue._now() - k.learnt_at, k.no)
  from lakequeue.agents a join lakequeue.learning_books k on k.agent_id = a.id where a.name = agent
$$;
-- which version of its row claims read
create function pg_temp.version(agent text) returns text language sql as $$ select a.ctid::text from lakequeue.agents a where a.name = agent $$;
select configure_agent('learns', tokens_per_task => 0, tokens_per_page => 1000, estimate_factor => 1);
select is(pg_temp.learnt('learns'), '0: x1.000, -, -', 'nothing done, nothing learnt');
select pg_temp.complete('learns', 2, 1000) from generate_series(1, 19);
select is(pg_temp.learnt('learns'), '19: x1.000, -, -', 'nineteen tasks are too few');
select pg_temp.complete('learns', 2, 1000);
select is(pg_temp.learnt('learns'), '20: x0.550, -0.500, -0.500', 'twenty that used half of the estimate');
select is(estimate_tokens('learns', 4), 2200::bigint, 'halve the estimates, and a tenth more');
select pg_temp.complete('learns', 2, 1000) from generate_series(1, 20);
select is(pg_temp.learnt('learns'), '40: x0.550, -0.295, -0.091', 'new ones are estimated right: the errors shrink, the factor stays');
select pg_temp.complete('learns', 2, 100000);
select matches(pg_temp.learnt('learns'), '^41: x0.550,', 'one outlier does not move the estimate');
select pg_temp.complete('learns', 2, 4000, complete => false), pg_temp.complete('learns', 2, 0) from generate_series(1, 5);
select matches(pg_temp.learnt('learns'), '^41: x0.550,', 'what is not known completely teaches nothing, nor does what used nothing');
select advance('1 second');
select pg_temp.complete('learns', 2, 4000) from generate_series(1, 100);
select matches(pg_temp.learnt('learns'), '^100: x2.200,', 'only the last hundred count: they needed twice the configured estimate');
select enqueue_task('learns', '/b.pdf', page_count => 3);
update agents set estimate_factor = 3 where name = 'learns';
select is((select estimated_tokens from dequeue_tasks('w', 1, array['learns'])), 9000::bigint, 'a task is estimated anew when it is claimed');
select is((select estimated_tokens from tasks t join agents a on a.id = t.agent_id where a.name = 'learns' and t.document_path = '/b.pdf'), 9000::bigint,
  'which the task shows');
select configure_agent('wild', tokens_per_task => 0, tokens_per_page => 1, estimate_factor => 1);
select pg_temp.complete('wild', 1, 1000000) from generate_series(1, 20);
select matches(pg_temp.learnt('wild'), '^20: x100.000,', 'no more than a hundred times');
select configure_agent('mild', tokens_per_task => 0, tokens_per_page => 1000000, estimate_factor => 1);
select pg_temp.complete('mild', 1, 10) from generate_series(1, 20);
select matches(pg_temp.learnt('mild'), '^20: x0.010,', 'no less than a hundredth');

-- Whoever claims passes each version of the agent's row, so there is a new one only where that says something.
select pg_temp.version('mild') as version \gset
select is(pg_temp.lessons('mild'), '00:00:00 ago, 1 in all', 'when it has learnt is noted');
select pg_temp.learnt('mild');
select is(pg_temp.version('mild'), :'version', 'the same lesson again leaves the agent''s row alone');
select is(pg_temp.lessons('mild'), '00:00:00 ago, 2 in all', 'and is noted all the same');
update agents set estimate_factor = 0.01 * 1.05 where name = 'mild';
select pg_temp.version('mild') as version \gset
select matches(pg_temp.learnt('mild'), '^20: x0.011,', 'a twentieth more or less says nothing');
select is(pg_temp.version('mild'), :'version', '(so the row is as it was)');
update agents set estimate_factor = 0.01 * 1.06 where name = 'mild';
select matches(pg_temp.learnt('mild'), '^20: x0.010,', 'more than that does');

-- sweep_leases calls it, once a minute for each agent
update learning_books k set learnt_at = '-infinity' from agents a where a.id = k.agent_id and a.name = 'mild';
select sweep_leases();
select is(pg_temp.lessons('mild'), '00:00:00 ago, 5 in all', 'the sweep learns');
select advance('59 seconds');
select sweep_leases();
select is(pg_temp.lessons('mild'), '00:00:59 ago, 5 in all', 'not more often than once a minute');
select advance('1 second');
select sweep_leases();
select is(pg_temp.lessons('mild'), '00:00:00 ago, 6 in all', 'but then');

-- One that cannot learn stops nobody: it is noted, and passed over for a minute.
create function pg_temp.refuse() returns trigger language plpgsql as $$ begin raise exception 'no room in the book'; end $$;
create trigger refuse before update on learning_books for each row execute function pg_temp.refuse();
select advance('1 minute');
select pg_temp.complete('mild', 1, 10);
select lives_ok('select sweep_leases()', 'a sweep goes on');
create function pg_temp.noted() returns text language sql as $$
  select string_agg(distinct e.reason, ' ') || ' ' || count(*)
  from lakequeue.task_events e join lakequeue.agents a on a.id = e.agent_id where e.kind = 'sweep_error' and a.name = 'mild'
$$;
select is(pg_temp.noted(), 'no room in the book 1', 'what was wrong is noted');
select advance('59 seconds');
select sweep_leases();
select is(pg_temp.noted(), 'no room in the book 1', 'once a minute');
select advance('2 seconds');
select sweep_leases();
select is(pg_temp.noted(), 'no room in the book 2', 'as long as it lasts');
drop trigger refuse on learning_books;
select advance('1 minute');
select pg_temp.complete('mild', 1, 10);
select sweep_leases();
select is(pg_temp.lessons('mild'), '00:00:00 ago, 7 in all', 'then it learns again');

-- --- the pace of runs -------------------------------------------------------------------------------
select configure_agent('paced', reserves_calls => true);
create temporary table runs (n integer primary key, attempt bigint);
create function pg_temp.run(n integer) returns void language plpgsql as $$
begin
  perform enqueue_task('paced', '/a.pdf');
  insert into pg_temp.runs select run.n, d.attempt_id from dequeue_tasks('w', 1, array['paced']) d;
end $$;
-- a call that was asked for, granted and ended so long ago
create function pg_temp.call(run integer, input bigint, output bigint, asked interval, granted interval, ended interval) returns void language sql as $$
  insert into lakequeue.model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at, ended_at)
  select a.id, gen_random_uuid(), a.endpoint_id, a.agent_id, 5, input, output, lakequeue._now() - asked, lakequeue._now(),
         lakequeue._now() - granted, lakequeue._now() - ended
  from lakequeue.task_attempts a join pg_temp.runs r on r.attempt = a.id where r.n = run
$$;
create function pg_temp.pace() returns text language plpgsql as $$
begin
  perform lakequeue._learn((lakequeue._agent('paced')).id);
  return (select format('%s %s %s', round(a.run_input_tpm), round(a.run_output_tpm), round(a.run_rpm)) from lakequeue.agents a where a.name = 'paced');
end $$;
select pg_temp.run(1);
select advance('59 seconds');
select pg_temp.call(1, 1000, 100, '30 seconds', '30 seconds', '20 seconds');
select is(pg_temp.pace(), '  ', 'less than a minute of runs teaches nothing');
select advance('1 second');
select is(pg_temp.pace(), '1000 100 1', 'a run that used 1,100 tokens in its minute');
select pg_temp.run(2);
select advance('30 seconds');
select pg_temp.call(2, 3000, 600, '10 seconds', '10 seconds', '5 seconds');
select is((select round(run_input_tpm) from agents where name = 'paced'), 1000::double precision, '(unchanged until it learns again)');
select is(pg_temp.pace(), '1833 283 1', 'all tokens of the minute over all the time that runs ran in it; half of it is taken over');
update agents set run_input_tpm = null, run_output_tpm = null, run_rpm = null where name = 'paced';
select pg_temp.call(1, 1000, 100, '40 seconds', '10 seconds', '1 second');
select is(pg_temp.pace(), '5000 800 3', 'time that a run had to wait is left out: crowding does not make runs look slow');
select advance('10 minutes');
select sweep_leases();
select is(pg_temp.pace(), '5000 800 3', 'a minute without calls teaches nothing');
select is(run_tpm, 5800::bigint, 'agent_status shows it') from agent_status(array['paced']);

set session authorization test_worker;
select throws_ok('select lakequeue._learn(1)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
