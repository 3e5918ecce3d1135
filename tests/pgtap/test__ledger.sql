-- Rollups and what is not folded yet are the same to a reader.
begin;
\ir scenarios.sql
select plan(7);

create function pg_temp.told(statuses text[] default null, customers text[] default null) returns setof text language sql as $$
  select concat_ws(' ', l.customer, l.status, l.day, sum(l.tasks), sum(l.llm_cost))
  from _ledger(_agent_ids(null), _statuses(told.statuses), told.customers) l
  group by l.customer, l.status, l.day having sum(l.tasks) <> 0 order by l.status
$$;
select job_run(1, 0.5);
select job_run(2, 0.25);
select new_task();
create temporary table before as select pg_temp.told() as told;
select results_eq('select told from before', $$values ('acme enqueued 1 0'), ('acme completed 2026-01-01 2 0.75')$$, 'tasks and their cost');
select fold_rollups();
select results_eq('select pg_temp.told()', 'select told from before', 'the same when folded');
select job_run(3);
select results_eq($$select pg_temp.told('{completed}')$$, $$values ('acme completed 2026-01-01 3 0.75')$$, 'folded and unfolded add up');
select is_empty($$select pg_temp.told(customers => '{nobody}')$$, 'of a customer');
select set_eq($$select l.day, sum(l.tasks) from _ledger(_agent_ids(null), _statuses(null), null, from_day => '2026-01-02') l group by 1 having sum(l.tasks) <> 0$$,
  $$values (null::date, 1::numeric)$$, 'of days, folded or not, and live ones always');
select set_eq($$select l.day, sum(l.tasks) from _ledger(_agent_ids(null), _statuses('{completed}'), null, '2025-12-31', '2026-01-01') l group by 1 having sum(l.tasks) <> 0$$,
  $$values ('2026-01-01'::date, 3::numeric)$$, 'up to a day');
select is_empty($$select from _ledger('{}', _statuses(null), null)$$, 'of no agent');

select * from finish();
rollback;
