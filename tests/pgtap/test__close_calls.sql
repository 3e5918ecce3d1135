-- The end of a run ends its model calls, however the run ended.
begin;
\ir scenarios.sql
select plan(14);

-- an attempt with a call that waits, one under way and one settled a second ago
create function pg_temp.calling() returns bigint language plpgsql as $$
declare v_attempt bigint := scenario.start();
begin
  update task_attempts set reserves_calls = true where id = v_attempt;
  insert into model_calls (attempt_id, key, endpoint_id, agent_id, priority, input_tokens, output_tokens, asked_at, seen_at, granted_at, ended_at)
  select a.id, gen_random_uuid(), a.endpoint_id, a.agent_id, 5, c.input, 1, _now() - interval '1 minute', _now(), _now() - c.granted, _now() - c.ended
  from task_attempts a, (values (1, null::interval, null::interval), (2, '2 seconds', null), (3, '2 seconds', '1 second')) c(input, granted, ended)
  where a.id = v_attempt;
  return v_attempt;
end $$;
-- what has become of them: input tokens, and how long ago they ended
create function pg_temp.calls(attempt bigint) returns text language sql as $$
  select string_agg(format('%s %s', c.input_tokens, coalesce((lakequeue._now() - c.ended_at)::text, 'open')), ', ' order by c.input_tokens)
  from lakequeue.model_calls c where c.attempt_id = attempt
$$;
create temporary table a as
select pg_temp.calling() as direct, pg_temp.calling() as failed, pg_temp.calling() as died, pg_temp.calling() as stored,
       pg_temp.calling() as expires, pg_temp.calling() as untouched;
select lives_ok(format('select _close_calls(array[%s])', direct), '(called directly)') from a;
select is(pg_temp.calls(direct), '2 00:00:00, 3 00:00:01', 'what waited is gone, what was under way has ended now, what had ended stays') from a;
select is(report(failed, 'failure'), 'accepted', '(a failure is reported)') from a;
select is(pg_temp.calls(failed), '2 00:00:00, 3 00:00:01', 'so does a report') from a;
select is(fail_attempt(died, 'run_died'), 'accepted', '(a run is known to have died)') from a;
select is(pg_temp.calls(died), '2 00:00:00, 3 00:00:01', 'so does a death') from a;
select is(store(stored), 'accepted', '(a result is stored)') from a;
select is(pg_temp.calls(stored), '1 open, 2 open, 3 00:00:01', 'a result alone does not: the run goes on') from a;
select is(report(stored, 'success'), 'accepted', '(and confirmed)') from a;
select is(pg_temp.calls(stored), '2 00:00:00, 3 00:00:01', 'its confirmation does') from a;
select is(pg_temp.calls(untouched), '1 open, 2 open, 3 00:00:01', 'other attempts'' calls are left alone') from a;
select lives_ok($$select _close_calls('{}'), _close_calls(null)$$, 'no attempts, nothing to do');
select run_out(expires) from a;
select is(pg_temp.calls(expires) ~ '^2 00:00:00$|^2 00:00:00, 3 ', true, 'a lease that ran out ends them, too') from a;
set session authorization test_agent;
select throws_ok('select lakequeue._close_calls(array[1])', '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;
select * from finish();
rollback;
