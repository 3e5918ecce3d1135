-- Compute cost under a filter, folded or not.
begin;
\ir scenarios.sql
select plan(8);

create function pg_temp.told(statuses text[] default null, customers text[] default null, from_day date default null, to_day date default null)
returns setof text language sql as $$
  select format('%s %s %s %s/%s %s', l.status, l.day, l.currency, sum(l.priced), sum(l.tasks), sum(l.list_cost))
  from _compute_ledger(_agent_ids(null), _statuses(told.statuses), told.customers, told.from_day, told.to_day) l
  group by l.status, l.day, l.currency order by 1
$$;
select job_run(1) as a \gset
select bill(usage('1', 2));
select fold_rollups() \gset
select advance('1 day') \gset
select job_run(2) as b \gset
select job_run(3, outcome => 'failure') as c \gset
select bill(usage('2', 3), usage('3', 4, currency => 'EUR'));
select results_eq('select pg_temp.told()', $$values ('completed 2026-01-01 USD 1/1 2'), ('completed 2026-01-02 USD 1/1 3'), ('failed 2026-01-02 EUR 1/1 4')$$,
  'folded and not');
select fold_rollups() \gset
select results_eq('select pg_temp.told()', $$values ('completed 2026-01-01 USD 1/1 2'), ('completed 2026-01-02 USD 1/1 3'), ('failed 2026-01-02 EUR 1/1 4')$$,
  'all of it folded');
select results_eq($$select pg_temp.told('{failed}')$$, $$values ('failed 2026-01-02 EUR 1/1 4')$$, 'of a status');
select is_empty($$select pg_temp.told(customers => '{nobody}')$$, 'of a customer there is not');
select results_eq($$select pg_temp.told(from_day => '2026-01-02', customers => '{acme}')$$,
  $$values ('completed 2026-01-02 USD 1/1 3'), ('failed 2026-01-02 EUR 1/1 4')$$, 'from a day on');
select results_eq($$select pg_temp.told(to_day => '2026-01-01')$$, $$values ('completed 2026-01-01 USD 1/1 2')$$, 'up to a day');
select is_empty($$select from _compute_ledger('{}', _statuses(null), null)$$, 'of no agent');

select not_for('test_reader', 'select lakequeue._compute_ledger(null, null, null)');
select * from finish();
rollback;
