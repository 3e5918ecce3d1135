-- _delta_gains: what becomes final counts once for each time, usage counts where it grew, and nothing is taken away.
begin;
\ir scenarios.sql
select plan(6);

create function pg_temp.gains(delta jsonb) returns text language sql as $$
  select (g.completed, g.failed, g.cancelled, g.input_tokens, g.output_tokens, g.cached_tokens, g.llm_cost)::text
  from lakequeue._delta_gains(jsonb_populate_record(null::lakequeue.task_deltas, '{"tasks": 2, "from_input_tokens": 0,
    "from_output_tokens": 0, "from_cached_tokens": 0, "from_llm_cost": 0, "to_input_tokens": 0, "to_output_tokens": 0,
    "to_cached_tokens": 0, "to_llm_cost": 0}' || delta)) g $$;
select is(pg_temp.gains('{"to_status": "enqueued"}'), '(0,0,0,0,0,0,0)', 'new tasks');
select is(pg_temp.gains('{"from_status": "processing", "to_status": "completed", "to_input_tokens": 7, "to_output_tokens": 5,
  "to_cached_tokens": 3, "to_llm_cost": 0.5}'), '(2,0,0,7,5,3,0.5)', 'two completed, with their usage');
select is(pg_temp.gains('{"from_status": "processing", "to_status": "failed"}'), '(0,2,0,0,0,0,0)', 'failed');
select is(pg_temp.gains('{"from_status": "enqueued", "to_status": "cancelled"}'), '(0,0,2,0,0,0,0)', 'cancelled');
select is(pg_temp.gains('{"from_status": "failed", "to_status": "enqueued", "from_input_tokens": 7, "to_input_tokens": 7}'),
          '(0,0,0,0,0,0,0)', 'a retry takes nothing away');
select is(pg_temp.gains('{"from_status": "completed", "to_status": "completed", "from_input_tokens": 7, "to_input_tokens": 9,
  "from_output_tokens": 5, "to_output_tokens": 1, "from_llm_cost": 2, "to_llm_cost": 1}'), '(0,0,0,2,0,0,0)',
  'a correction counts upwards only, and no task is completed twice by it');

select * from finish();
rollback;
