-- Folding moves deltas of compute into rollups: what a reader adds up stays the same, and nothing is counted twice.
begin;
\ir scenarios.sql
select plan(8);

insert into compute_deltas (agent_id, customer, status, day, currency, tasks, priced, list_cost, asked_at)
values (7, 'acme', 'failed', '2026-01-01', 'USD', 3, 2, 1.5, '2026-01-02 10:00+00'),
       (7, 'acme', 'failed', '2026-01-01', 'USD', -1, -1, -0.5, null),
       (7, 'acme', 'failed', '2026-01-01', 'EUR', 1, 1, 9, '2026-01-02 10:00+00'),
       (8, 'acme', 'failed', '2026-01-01', 'USD', 1, 0, 4, '2026-01-03 10:00+00');
create function pg_temp.kept() returns setof text language sql as $$
  select format('%s %s %s %s %s', r.agent_id, r.currency, r.tasks, r.priced, r.list_cost) from compute_rollups r order by 1
$$;
select _fold_compute(2);
select results_eq('select pg_temp.kept()', $$values ('7 USD 2 1 1.0')$$, 'as many as were asked for');
select is((select count(*) from compute_deltas), 2::bigint, 'are deleted');
select _fold_compute(100);
select results_eq('select pg_temp.kept()', $$values ('7 EUR 1 1 9'), ('7 USD 2 1 1.0'), ('8 USD 1 0 4')$$, 'then the others');
select is_empty('select from compute_deltas', 'and nothing is left');
insert into compute_deltas (agent_id, customer, status, day, currency, tasks, priced, list_cost, asked_at)
values (7, 'acme', 'failed', '2026-01-01', 'USD', -2, -1, -1, null), (8, 'acme', 'failed', '2026-01-01', 'USD', 0, 1, 0.5, '2026-01-04 10:00+00');
select fold_rollups();
select results_eq('select pg_temp.kept()', $$values ('7 EUR 1 1 9'), ('7 USD 0 0 0.0'), ('8 USD 1 1 4.5')$$, 'fold_rollups folds these, too');
select is((select r.asked_at from compute_rollups r where r.agent_id = 8), '2026-01-04 10:00+00', 'the newest word of billing stays');
select is((select r.asked_at from compute_rollups r where r.agent_id = 7 and r.currency = 'USD'), '2026-01-02 10:00+00', 'what leaves takes none along');

select not_for('test_worker', 'select lakequeue._fold_compute(1)');
select * from finish();
rollback;
