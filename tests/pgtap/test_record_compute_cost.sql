-- What billing answered: all record types added up, another's runs left out, a repeat counts nothing twice.
begin;
\ir scenarios.sql
select plan(33);

create function pg_temp.costs() returns setof text language sql as $$
  select format('%s %s %s %s %s', r.run_id, c.sku, coalesce(c.currency, 'no price'), c.quantity, c.list_cost)
  from compute_costs c join compute_runs r on r.attempt_id = c.attempt_id order by 1
$$;
create function pg_temp.begun() returns bigint language sql as $$ select b.fetch_id from begin_compute_fetch('ops') b $$;

select job_run(1);
select job_run(2);
select results_eq(
  $$select r.* from record_compute_cost(pg_temp.begun(), 'w-1', json_build_array(
      usage('1', 5), usage('1', -5), usage('1', 3.5), usage('1', 0.1, 'PHOTON'), usage('1', 7, currency => 'EUR'),
      usage('1', 1, day => '2026-01-02'), usage('99', 1000))) r$$,
  $$values (2, 1, 1)$$, 'says how many were asked for, billed and not ours');
select results_eq('select pg_temp.costs()', $$values ('1 JOBS EUR 2 7'), ('1 JOBS USD 2 1'), ('1 JOBS USD 6 3.5'), ('1 PHOTON USD 2 0.1')$$,
  'a run, SKU, day and currency is one sum, retractions in it; another''s run is nowhere');
select results_eq('select r.run_id, r.billed, r.settled, r.asked_at from compute_runs r order by 1',
  $$values (1::bigint, true, false, _now()), (2, false, false, _now())$$, 'what is not billed yet is known as such');
select results_eq('select f.state, f.workspace_id, f.ended_at from compute_fetches f', $$values ('done', 'w-1', _now())$$, 'the fetch is done');

-- repeats
select says_and_changes_nothing($$select r::text from record_compute_cost((select max(id) from compute_fetches), 'w-1', json_build_array(usage('1', 8))) r$$,
  '(2,1,1)', 'the same fetch again says the same');
select bill(usage('1', 4), usage('2', 2));
select results_eq('select pg_temp.costs()', $$values ('1 JOBS USD 2 4'), ('2 JOBS USD 2 2')$$, 'a later fetch replaces what was known of its runs');
select bill(usage('1', 4), usage('1', -4));
select results_eq('select pg_temp.costs()', $$values ('1 JOBS USD 4 0'), ('2 JOBS USD 2 2')$$, 'what was taken back is 0; what is not mentioned stays known');
select bill(usage('1', null), usage('1', null, currency => null), usage('2', 1));
select results_eq('select pg_temp.costs()', $$values ('1 JOBS no price 4 '), ('2 JOBS USD 2 1')$$, 'without a price it stays, without a cost');
select job_run(3);
select record_compute_cost((select b.fetch_id from begin_compute_fetch('ops', agents => array[agent_of((select max(id) from tasks))]) b), 'w', json_build_array(usage('3', 9), usage('1', 9)));
select results_eq('select pg_temp.costs()', $$values ('1 JOBS no price 4 '), ('2 JOBS USD 2 1'), ('3 JOBS USD 2 9')$$, 'runs that were not asked for stay as they were');

select job_run(5) as first, job_run(5) as second \gset
select bill(usage('5', 6));
select results_eq('select c.attempt_id, c.list_cost from compute_costs c join compute_runs r using (attempt_id) where r.run_id = 5',
  $$select min(a.id), 6::numeric from task_attempts a where a.run_id = 5$$, 'a run of two attempts is billed once, to the first of them');
select bill(usage('5', 7));
select results_eq('select c.attempt_id, c.list_cost from compute_costs c join compute_runs r using (attempt_id) where r.run_id = 5',
  $$select min(a.id), 7::numeric from task_attempts a where a.run_id = 5$$, 'and stays with it');

-- settling
select advance('7 days' - interval '1 second');
select bill(usage('1', 1));
select is((select count(*) from compute_runs where settled), 0::bigint, 'within a week nothing is settled');
select advance('1 second');
select bill(usage('1', 1));
select is((select count(*) from compute_runs where settled), 5::bigint, 'after it all is, also what was never billed');

-- endpoints
create temporary table endpoint as select agent_of(task_of(job_run(4))) as name;
select bill(usage(name, 5, kind => 'endpoint', day => '2026-01-08'), usage(name, -1, kind => 'endpoint', day => '2026-01-08'),
            usage('another', 9, kind => 'endpoint', day => '2026-01-08'), usage(name, 9, kind => 'endpoint', day => '2020-01-01')) from endpoint;
select results_eq('select e.endpoint, e.day, e.quantity, e.list_cost, e.fetched_at from endpoint_costs e',
  $$select name, date '2026-01-08', 4::numeric, 4::numeric, _now() from endpoint$$, 'an endpoint''s day is one sum; others and other days are not taken');
select is((select f.ignored from compute_fetches f order by f.id desc limit 1), 2, 'they are counted');
select bill();
select is((select sum(list_cost) from endpoint_costs), 4::numeric, 'an answer without rows erases nothing');
select bill(usage(name, 6, kind => 'endpoint', day => '2026-01-08')) from endpoint;
select is((select sum(list_cost) from endpoint_costs), 6::numeric, 'a later one replaces the days it has');

-- run ids are as large as a bigint holds
select job_run(9223372036854775807);
select bill(usage('9223372036854775807', 3), usage('9223372036854775808', 5), usage('99999999999999999999', 7));
select is((select sum(c.list_cost) from compute_costs c join compute_runs r using (attempt_id) where r.run_id = 9223372036854775807), 3::numeric,
  'a run with 19 digits is billed, what no bigint holds is no run of ours');

-- what cannot be
select pg_temp.begun();
select refused(format($$select record_compute_cost((select max(id) from compute_fetches), 'w', %s)$$, rows), 'LQ422', rows || ' is refused')
from unnest(array['null', $$'{}'$$, $$'[1]'$$, $$'"rows"'$$, $$json_build_array(usage('4', 'NaN'))$$, $$json_build_array(usage('4', 1e12))$$,
  $$json_build_array(usage('4', 1, sku => ''))$$, $$json_build_array(usage('4', 1, currency => null))$$, $$json_build_array(usage('4', 1, day => null))$$]) rows;
select is((select f.state from compute_fetches f order by f.id desc limit 1), 'running', 'and the fetch goes on');
select record_compute_cost((select max(id) from compute_fetches), 'w', '[]');
select refused($$select record_compute_cost(-1, 'w', '[]')$$, 'LQ404', 'an unknown fetch is refused');
select update_compute_fetch(pg_temp.begun(), problem => 'the end');
select refused($$select record_compute_cost((select max(id) from compute_fetches), 'w', '[]')$$, 'LQ409', 'so is the answer to one that has failed');

set session authorization test_web;
select throws_ok($$select lakequeue.record_compute_cost(-1, 'w', '[]')$$, 'LQ404', null, 'the web process may');
set session authorization test_owner;
select not_for('test_worker', $$select lakequeue.record_compute_cost(1, 'w', '[]')$$);
select not_for('test_reader', $$select lakequeue.record_compute_cost(1, 'w', '[]')$$);

select * from finish();
rollback;
