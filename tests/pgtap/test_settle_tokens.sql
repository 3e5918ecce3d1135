-- The end of a reserved model call: once, with what it used.
begin;
\ir scenarios.sql
select no_plan();

create temporary table run as select start() as attempt;
select set_clock('2026-01-01 13:00+00');
create function pg_temp.granted() returns uuid language sql as $$
  select r.call_id from pg_temp.run, lakequeue.reserve_tokens(run.attempt, scenario.token(run.attempt), 500, 200) r
$$;
create function pg_temp.settle(call uuid, input bigint default null, output bigint default null) returns text language sql as $$
  select lakequeue.settle_tokens(run.attempt, scenario.token(run.attempt), call, input, output) from pg_temp.run
$$;
create temporary table calls as
select pg_temp.granted() as used, pg_temp.granted() as unknown, pg_temp.granted() as half, pg_temp.granted() as more, pg_temp.granted() as open;
select advance('3 seconds');

select is(pg_temp.settle(used, 400, 20), 'settled', 'a call that was answered') from calls;
select is(pg_temp.settle(unknown), 'settled', 'one of which nobody knows what it used') from calls;
select is(pg_temp.settle(half, output => 0), 'settled', 'one of which half is known') from calls;
select is(pg_temp.settle(more, 501, 300), 'settled', 'one that used more than reserved') from calls;
select results_eq(
  $$select m.input_tokens, m.output_tokens, m.granted_at, m.ended_at from model_calls m, calls c
    where m.key in (c.used, c.unknown, c.half, c.more) order by m.id$$,
  $$values (400::bigint, 20::bigint, '2026-01-01 13:00+00'::timestamptz, '2026-01-01 13:00:03+00'::timestamptz), (500, 200, '2026-01-01 13:00+00', '2026-01-01 13:00:03+00'),
           (500, 0, '2026-01-01 13:00+00', '2026-01-01 13:00:03+00'), (501, 300, '2026-01-01 13:00+00', '2026-01-01 13:00:03+00')$$,
  'count from now with what they used, or what was reserved where that is not known');
select advance('1 second');
select says_and_changes_nothing(format('select pg_temp.settle(%L, 1, 1)', used), 'duplicate', 'a repeat changes nothing') from calls;

select refused(format('select pg_temp.settle(%L, -1, 1)', open), 'LQ400', 'negative tokens') from calls;
select refused(format('select pg_temp.settle(%L, 1, 1000000001)', open), 'LQ400', 'absurd tokens') from calls;
select refused(format('select pg_temp.settle(%L)', gen_random_uuid()), 'LQ404', 'an unknown call');
select refused('select pg_temp.settle(null)', 'LQ404', 'none');
select refused(format('select settle_tokens(%s, %L, %L)', attempt, 'guess', open), 'LQ401', 'a wrong token') from run, calls;
select refused(format('select settle_tokens(%s, %L, %L)', a.other, token(a.other), open), 'LQ404', 'another attempt''s call')
from calls, (select start() as other) a;
select refused(format('select settle_tokens(-1, %L, %L)', 'x', open), 'LQ404', 'an unknown attempt') from calls;

-- a call that only waits has not begun
select configure_endpoint(agent_of(task_of(attempt)), max_rpm => 5) from run;
create temporary table waiting as select pg_temp.granted() as call;
select refused(format('select pg_temp.settle(%L)', call), 'LQ404', 'a call that was not granted') from waiting;

-- the end of the run ends its calls
select is(report(attempt, 'failure'), 'accepted', '(the run ends)') from run;
select is(pg_temp.settle(open, 1, 1), 'duplicate', 'a call that the end of its run has ended') from calls;
select results_eq($$select m.input_tokens, m.output_tokens, m.ended_at from model_calls m, calls c where m.key = c.open$$,
  $$values (500::bigint, 200::bigint, '2026-01-01 13:00:04+00'::timestamptz)$$, 'counts with what was reserved');

create temporary table settling as
select format('select lakequeue.settle_tokens(%s, %L, %L)', attempt, token(attempt), used) as statement from run, calls;
grant select on settling to public;
select not_for(login, (select statement from settling)) from unnest(array['test_app', 'test_web', 'test_worker', 'test_reader', 'test_operator']) login;
select statement from settling \gset
set session authorization test_agent;
select results_eq(:'statement', array['duplicate'], 'an agent may settle');
set session authorization test_owner;

select * from finish();
rollback;
