-- How long until so much has left a window: to the moment for what has ended, unknown for what has not.
begin;
\ir scenarios.sql
select plan(13);

create temporary table run as select start() as attempt;
create temporary table place as select endpoint_id, agent_id from task_attempts where id = (select attempt from run);
create function pg_temp.call(input bigint, output bigint, ended interval, agent integer default null) returns void language sql as $$
  insert into lakequeue.model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at, ended_at)
  select run.attempt, gen_random_uuid(), p.endpoint_id, coalesce(agent, p.agent_id), 5, input, output, lakequeue._now() - interval '1 hour',
         lakequeue._now(), lakequeue._now() - interval '1 hour', lakequeue._now() - ended
  from pg_temp.run, pg_temp.place p
$$;
create function pg_temp.after(kind text, missing numeric, own boolean default false) returns interval language sql as $$
  select lakequeue._room_after(p.endpoint_id, case when own then p.agent_id end, kind, missing) from pg_temp.place p
$$;
select is(pg_temp.after('tokens', 1), null, 'nothing has ended: nobody knows');
select pg_temp.call(100, 10, '50 seconds'), pg_temp.call(200, 20, '40 seconds'), pg_temp.call(400, 40, '61 seconds'), pg_temp.call(800, 80, null);
select is(pg_temp.after('tokens', 110), '10 seconds', 'as much as the oldest call used: when that leaves');
select is(pg_temp.after('tokens', 111), '20 seconds', 'one more: when the next one does');
select is(pg_temp.after('tokens', 331), null, 'more than has ended: nobody knows');
select is(pg_temp.after('input_tokens', 101), '20 seconds', 'prompt tokens');
select is(pg_temp.after('output_tokens', 10), '10 seconds', 'answer tokens');
select is(pg_temp.after('requests', 2), '20 seconds', 'requests');
select pg_temp.call(1000, 0, '55 seconds', -1);
select is(pg_temp.after('tokens', 110), '5 seconds', 'calls of every agent of the endpoint count');
select is(pg_temp.after('tokens', 110, own => true), '10 seconds', 'for an agent''s own limit only its own');

-- attempts that do not reserve
select is(report(attempt, 'failure', input_tokens => 300, output_tokens => 30, usage_complete => true), 'accepted', '(a run that used 330 ends)') from run;
select is(pg_temp.after('tokens', 1330 + 330), '60 seconds', 'an attempt leaves a minute after its run has ended, with what it used');
select is(pg_temp.after('tokens', 1330 + 330 + 880 + 1), null, 'no more than that');
set session authorization test_agent;
select throws_ok($$select lakequeue._room_after(1, null, 'tokens', 1)$$, '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;
select * from finish();
rollback;
