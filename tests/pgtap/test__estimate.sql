-- The estimate as things stand now: what was configured, times what completed tasks have taught.
begin;
select plan(6);
select configure_agent('_estimate', tokens_per_task => 100, tokens_per_page => 10, estimate_factor => 1);
create function pg_temp.estimated(pages integer, factor real) returns bigint language plpgsql as $$
begin
  update lakequeue.agents set estimate_factor = factor where name = '_estimate';
  return lakequeue._estimate(lakequeue._agent('_estimate'), pages, null);
end $$;
select is(pg_temp.estimated(3, 1), 130::bigint, 'nothing learnt: as configured');
select is(pg_temp.estimated(3, 2), 260::bigint, 'a factor multiplies');
select is(pg_temp.estimated(3, 0.055), 8::bigint, 'part of a token is one');
select configure_agent('_estimate', tokens_per_task => 0, tokens_per_page => 0);
select is(pg_temp.estimated(3, 1), 1::bigint, 'never nothing: what runs must count');
select configure_agent('_estimate', tokens_per_page => 1000000);
select is(pg_temp.estimated(2000000, 100), 1000000000000, 'never more than a column holds');
set session authorization test_app;
select throws_ok($$select lakequeue._estimate(null, 1, 1)$$, '42501', null, 'it is internal: an app may not call it');
set session authorization test_owner;
select * from finish();
rollback;
