-- extraction_detail: what an extraction is, as it was opened.
begin;
\ir scenarios.sql
select plan(5);

select create_extraction('October', 'acme', 'ann@example.org') as extraction \gset
select results_eq(format('select * from extraction_detail(%s)', :extraction),
  format($$ values (%s::bigint, 'October', 'acme', 'ann@example.org', '2026-01-01 12:00+00'::timestamptz) $$, :extraction),
  'as it was opened');
select refused('select extraction_detail(0)', 'LQ404', 'one that there is not');
select refused('select extraction_detail(null)', 'LQ404', 'no extraction');

set session authorization test_web;
select lives_ok(format('select extraction_detail(%s)', :extraction), 'the web process may ask');
set session authorization test_worker;
select throws_ok(format('select extraction_detail(%s)', :extraction), '42501', null, 'a worker may not');

select * from finish();
rollback;
