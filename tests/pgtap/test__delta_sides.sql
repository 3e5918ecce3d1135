-- A delta has two sides that balance: what leaves one group enters another; new tasks only enter.
begin;
select plan(5);

delete from task_deltas;
insert into task_deltas (
    id, agent_id, customer, tasks, from_status, from_day, from_bucket, from_input_tokens, from_output_tokens, from_cached_tokens, from_llm_cost,
    to_status, to_day, to_bucket, to_input_tokens, to_output_tokens, to_cached_tokens, to_llm_cost, from_hour, to_hour,
    from_ran, from_priced, from_input_told, from_output_told, from_cached_told, from_cost_told, from_billable,
    to_ran, to_priced, to_input_told, to_output_told, to_cached_told, to_cost_told, to_billable)
  overriding system value values
  (1, 7, 'acme', 3, 'processing', null, null, 30, 20, 10, 0.5, 'completed', '2026-03-01', 12, 300, 200, 100, 1.5, null, '2026-03-01 10:00+00', 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 16, 17),
  (2, 7, '', 2, null, null, null, 0, 0, 0, 0, 'enqueued', null, null, 0, 0, 0, 0, null, null, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
  (3, 7, '', 1, 'completed', '2026-03-01', 12, 1, 1, 1, 1, 'completed', '2026-03-01', 12, 2, 2, 2, 2, '2026-03-01 10:00+00', '2026-03-01 10:00+00', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);

select set_eq(
  'select s.* from task_deltas d cross join lateral _delta_sides(d) s where d.id = 1',
  $$values (7, 'acme', 'processing'::task_status, null::date, null::smallint, -3::bigint, -30::bigint, -20::bigint, -10::bigint, -0.5::numeric, null::timestamptz, -1::bigint, -2::bigint, -3::bigint, -4::bigint, -5::bigint, -6::bigint, -7::bigint),
           (7, 'acme', 'completed', '2026-03-01', 12, 3, 300, 200, 100, 1.5, '2026-03-01 10:00+00', 11, 12, 13, 14, 15, 16, 17)$$,
  'tasks leave one group with what they had and enter another with what they have');
select set_eq(
  'select s.* from task_deltas d cross join lateral _delta_sides(d) s where d.id = 2',
  $$values (7, '', 'enqueued'::task_status, null::date, null::smallint, 2::bigint, 0::bigint, 0::bigint, 0::bigint, 0::numeric, null::timestamptz, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint)$$,
  'new tasks come from nowhere');
select is((select sum(s.tasks) from task_deltas d cross join lateral _delta_sides(d) s where d.id = 3), 0::numeric, 'a settled usage moves no tasks');
select is((select sum(s.input_tokens) from task_deltas d cross join lateral _delta_sides(d) s where d.id = 3), 1::numeric, 'but tokens');

set session authorization test_reader;
select throws_ok('select lakequeue._delta_sides(null)', '42501', null, 'it is internal: a reader may not call it');
set session authorization test_owner;

select * from finish();
rollback;
