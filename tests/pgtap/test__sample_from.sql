-- A sample of customers goes no further back than 50 tasks of anybody for each one of it, but for whole days.
begin;
\ir scenarios.sql
select plan(10);

insert into task_rollups (agent_id, customer, status, day, tasks, input_tokens, output_tokens, cached_tokens, llm_cost)
select 1, c.customer, s.status::task_status, d.day, c.tasks, 0, 0, 0, 0
from (values ('rare', 1), ('others', 99)) c(customer, tasks)
cross join (values ('completed'), ('failed')) s(status)
cross join (values (date '2025-12-28'), ('2025-12-29'), ('2025-12-30')) d(day)
where s.status = 'completed' or c.customer = 'others' or d.day = '2025-12-29';
create function pg_temp.of_rare(sample integer, from_day date default null, to_day date default null, customers text[] default '{rare}') returns text language sql as $$
  select format('%s %s', coalesce(f.day::text, 'open'), f.more)
  from _sample_from('{1}', '{completed,failed}', of_rare.from_day, of_rare.to_day, of_rare.customers, of_rare.sample) f
$$;
select is(pg_temp.of_rare(1), '2025-12-30 t', 'after one day of 100 tasks, 50 were passed for a sample of 1');
select is(pg_temp.of_rare(2), '2025-12-30 t', 'and 100 for one of 2');
select is(pg_temp.of_rare(3), '2025-12-29 t', 'not 150 for one of 3, so one more day is looked at, which has 200 where the customer has both');
select is(pg_temp.of_rare(7), '2025-12-28 f', 'all days, whose tasks were passed only where the customer has any');
select is(pg_temp.of_rare(1, customers => null), 'open f', 'of anybody none is passed');
select is(pg_temp.of_rare(1, '2025-12-01', customers => null), '2025-12-01 f', 'from a day on');
select is(pg_temp.of_rare(2, to_day => '2025-12-29'), '2025-12-29 t', 'up to a day');
select is(pg_temp.of_rare(9, '2025-12-29'), '2025-12-29 f', 'from a day on, of a customer');
select is(pg_temp.of_rare(9, '2025-12-29', customers => '{nobody}'), '2025-12-29 f', 'of a customer that there is not');

select not_for('test_reader', 'select lakequeue._sample_from(null, null, null, null, null, 1)');
select * from finish();
rollback;
