-- What an attempt has used once a report is settled: nothing is written (test__record_usage.sql has the rules).
begin;
\ir scenarios.sql
select plan(7);

select start() as a \gset
create function pg_temp.settled(attempt bigint, input bigint, output bigint, cost numeric, complete boolean) returns jsonb language sql as $$
  select to_jsonb(lakequeue._settle_usage(a, input, output, null, cost, complete, 'callback', g.output_share))
  from lakequeue.task_attempts a join lakequeue.agents g on g.id = a.agent_id where a.id = attempt $$;
select is(pg_temp.settled(:a, null, null, null, false), to_jsonb(a), 'nothing reported, nothing changed') from task_attempts a where a.id = :a;
select is(pg_temp.settled(:a, 40, 2, 0.5, true),
          to_jsonb(a) || '{"input_tokens": 40, "output_tokens": 2, "llm_cost": 0.5, "usage_complete": true, "usage_source": "callback"}',
          'the report stands, and raises nothing that the estimate did not hold') from task_attempts a where a.id = :a;
select is(pg_temp.settled(:a, 9000, 0, null, false) -> 'raised',
          to_jsonb(array[0, 9000 - c.counted[2], 9000 - c.counted[3], 0, 0]), 'what it did not hold is raised')
from task_attempts a join agents g on g.id = a.agent_id cross join lateral (select _counted(a, g.output_share) as counted) c where a.id = :a;
select is(pg_temp.settled(:a, 1, 1, 1e-16000, true) ->> 'llm_cost', '0.00000000000000000000', 'a cost of 16,000 digits is rounded');
select is(pg_temp.settled(:a, 1, 1, 0.00000000000000000001, true) ->> 'llm_cost', '0.00000000000000000001', 'one of 20 is kept');
select is((select input_tokens from task_attempts where id = :a), null, 'none of it is written');
select throws_ok(format('select _settle_usage(a, -1, 0, null, null, false, ''callback'', 0.5) from task_attempts a where a.id = %s', :a),
                 'LQ400', null, 'impossible numbers are refused');
select * from finish();
rollback;
