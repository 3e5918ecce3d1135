-- What one more task asks of a minute: its estimate, or what a run of an agent that reserves its calls uses.
begin;
select plan(9);
select configure_endpoint('_demand', max_tpm => 900), configure_agent('_demand', model_endpoint => '_demand', output_share => 0.3);
create function pg_temp.demand(estimate bigint) returns numeric[] language sql as $$
  select lakequeue._demand(a, e, estimate) from lakequeue.agents a join lakequeue.model_endpoints e on e.id = a.model_endpoint_id
  where a.name = '_demand'
$$;
select is(pg_temp.demand(1000), array[1, 1000, 700, 300, 1]::numeric[], 'one place, the whole estimate, its parts, one request');
select is(pg_temp.demand(1), array[1, 1, 0, 1, 1]::numeric[], 'parts add up, the answer rounded up');
select configure_agent('_demand', reserves_calls => true);
select is(pg_temp.demand(500), array[1, 500, 350, 150, 1]::numeric[], 'as long as nothing is known of its runs, likewise');
select is(pg_temp.demand(1000), array[1, 900, 700, 300, 1]::numeric[], 'but never more than the limit: no run may use more');
update agents set run_input_tpm = 200, run_output_tpm = 50, run_rpm = 4 where name = '_demand';
select is(pg_temp.demand(1000), array[1, 250, 200, 50, 4]::numeric[], 'then what its runs use in a minute, whatever the estimate');
select is(pg_temp.demand(1), array[1, 250, 200, 50, 4]::numeric[], 'for small ones, too');
select configure_agent('_demand', max_tpm => 150, max_output_tpm => 40, max_rpm => 3);
select is(pg_temp.demand(1000), array[1, 150, 150, 40, 3]::numeric[], 'never more than the agent''s own limits, of every kind');
select configure_agent('_demand', reserves_calls => false);
select is(pg_temp.demand(1000), array[1, 1000, 700, 300, 1]::numeric[], 'an agent that does not reserve may spend it all at any time');
set session authorization test_worker;
select throws_ok('select lakequeue._demand(null, null, 1)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
