-- The estimate as configured: tokens_per_task and pages, which bytes stand in for.
begin;
select plan(9);
select configure_agent('_bare', tokens_per_task => 100, tokens_per_page => 10);
create function pg_temp.bare(pages integer, bytes bigint) returns numeric language sql as
$$ select lakequeue._bare_estimate(lakequeue._agent('_bare'), pages, bytes) $$;
select is(pg_temp.bare(3, null), 130::numeric, 'pages are counted');
select is(pg_temp.bare(0, null), 100::numeric, 'a document without pages costs what a task costs');
select is(pg_temp.bare(3, 10000000), 130::numeric, 'pages are better than bytes');
select is(pg_temp.bare(null, 50000), 110::numeric, '50 kB are one page');
select is(pg_temp.bare(null, 50001), 120::numeric, 'a byte more is another one');
select is(pg_temp.bare(null, 0), 110::numeric, 'even an empty file has one page');
select is(pg_temp.bare(null, null), 110::numeric, 'so has one of which nothing is known');
update agents set estimate_factor = 3 where name = '_bare';
select is(pg_temp.bare(3, null), 130::numeric, 'what was learnt does not matter here');
set session authorization test_app;
select throws_ok($$select lakequeue._bare_estimate(null, 1, 1)$$, '42501', null, 'it is internal: an app may not call it');
set session authorization test_owner;
select * from finish();
rollback;
