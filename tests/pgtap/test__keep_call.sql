-- A model call is written: a new one, or what changes of one that waits, which costs no entry in any index.
begin;
\ir scenarios.sql
select plan(8);
select without_upkeep();

select start() as attempt \gset
create temporary table run as select a.* from task_attempts a where a.id = :attempt;
create function pg_temp.new(input bigint) returns model_calls language sql as $$
  select jsonb_populate_record(null::lakequeue.model_calls, jsonb_build_object(
    'attempt_id', r.id, 'key', gen_random_uuid(), 'endpoint_id', r.endpoint_id, 'agent_id', r.agent_id, 'priority', 3, 'input_tokens', input,
    'output_tokens', 2, 'asked_at', lakequeue._now(), 'seen_at', lakequeue._now(), 'agent_limit', true)) from pg_temp.run r
$$;
create temporary table kept as select k.* from pg_temp.new(1) n cross join lateral _keep_call(n) k;
select results_eq('select * from kept', format('select * from model_calls where attempt_id = %s', r.id), 'a new one, as it is stored') from run r;
select results_eq('select input_tokens, output_tokens, priority, agent_limit, granted_at from kept',
  'values (1::bigint, 2::bigint, 3::smallint, true, null::timestamptz)', 'as it was to be');
select ok(place > 0 and place <= id, 'its place is the newest id') from kept;

update kept set granted_at = _now(), agent_limit = false, seen_at = _now() + interval '1 second', input_tokens = 7, output_tokens = 8,
                priority = 9, asked_at = _now() - interval '1 hour', place = 0;
create temporary table again as
select k.* from kept cross join lateral _keep_call(jsonb_populate_record(null::model_calls, to_jsonb(kept))) k;
select results_eq('select * from again', format('select * from model_calls where attempt_id = %s', r.id), 'another time: as it is stored then') from run r;
select results_eq('select granted_at, agent_limit, seen_at - asked_at, input_tokens, output_tokens, priority, place from again',
  format('select _now(), false, interval ''1 second'', 7::bigint, 8::bigint, 3::smallint, %s::bigint', (select place from model_calls c where c.id = again.id)),
  'what asking again, or a grant, changes, and nothing else') from again;
select is(pg_stat_get_xact_tuples_hot_updated('model_calls'::regclass), pg_stat_get_xact_tuples_updated('model_calls'::regclass),
  'without an entry in any index');

-- a place below the mark would hide it
insert into running_books (endpoint_id, call_from) select r.endpoint_id, 1000000000 from run r;
select is((_keep_call(pg_temp.new(2))).place, 1000000000::bigint, 'its place is no lower than where open calls begin');

set session authorization test_agent;
select throws_ok('select lakequeue._keep_call(null)', '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
