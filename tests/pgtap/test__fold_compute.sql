-- Folding moves deltas of compute into rollups: what a reader adds up stays the same, and nothing is counted twice.
begin;
\ir scenarios.sql
select plan(6);

insert into compute_deltas (agent_id, customer, status, day, currency, tasks, priced, list_cost)
values (7, 'acme', 'failed', '2026-01-01', 'USD', 3, 2, 1.5),
       (7, 'acme', 'failed', '2026-01-01', 'USD', -1, -1, -0.5),
       (7, 'acme', 'failed', '2026-01-01', 'EUR', 1, 1, 9),
       (8, 'acme', 'failed', '2026-01-01', 'USD', 1, 0, 4);
create function pg_temp.kept() returns setof text language sql as $$
  select format('%s %s %s %s %s', r.agent_id, r.currency, r.tasks, r.priced, r.list_cost) from compute_rollups r order by 1
$$;
select _fold_compute(2);
select results_eq('select pg_temp.kept()', $$values ('7 USD 2 1 1.0')$$, 'as many as were asked for');
select is((select count(*) from compute_deltas), 2::bigint, 'are deleted');
select _fold_compute(100);
select results_eq('select pg_temp.kept()', $$values ('7 EUR 1 1 9'), ('7 USD 2 1 1.0'), ('8 USD 1 0 4')$$, 'then the others');
select is_empty('select from compute_deltas', 'and nothing is left');
insert into compute_deltas (agent_id, customer, status, day, currency, tasks, priced, list_cost)
values (7, 'acme', 'failed', '2026-01-01', 'USD', -2, -1, -1), (8, 'acme', 'failed', '2026-01-01', 'USD', 0, 1, 0.5);
select fold_rollups();
select results_eq('select pg_temp.kept()', $$values ('7 EUR 1 1 9'), ('7 USD 0 0 0.0'), ('8 USD 1 1 4.5')$$, 'fold_rollups folds these, too');

select not_for('test_worker', 'select lakequeue._fold_compute(1)');
select * from finish();
rollback;
