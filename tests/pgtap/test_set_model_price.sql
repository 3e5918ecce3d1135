-- Prices from a point in time on: what holds when, and what is no price.
begin;
select plan(34);

select set_clock('2026-03-01 09:00+00');
create function pg_temp.prices(model text) returns text language sql as $$
  select string_agg(format('%s: %s/%s/%s', to_char(p.valid_from at time zone 'UTC', 'YYYY-MM-DD HH24:MI'), p.input_usd, p.cached_usd, p.output_usd),
                    ', ' order by p.valid_from)
  from lakequeue.model_prices p where p.model = prices.model
$$;

select set_model_price('_smp a', 3, 15);
select is(pg_temp.prices('_smp a'), '2026-03-01 09:00: 3/3/15', 'it holds from now on, cached tokens cost as input');
select advance('1 hour');
select set_model_price('_smp a', 3, 15, 3);
select is(pg_temp.prices('_smp a'), '2026-03-01 09:00: 3/3/15', 'the same price again is no new price');
select set_model_price('_smp a', 2, 10, 0.5);
select is(pg_temp.prices('_smp a'), '2026-03-01 09:00: 3/3/15, 2026-03-01 10:00: 2/0.5/10', 'another one is, and the old one stays');
select set_model_price('_smp a', 4, 20, 1);
select is(pg_temp.prices('_smp a'), '2026-03-01 09:00: 3/3/15, 2026-03-01 10:00: 4/1/20', 'for the same moment the last word counts');
select set_model_price('_smp a', 3, 15, valid_from => '2026-03-01 11:00+00');
select is(pg_temp.prices('_smp a'), '2026-03-01 09:00: 3/3/15, 2026-03-01 10:00: 4/1/20, 2026-03-01 11:00: 3/3/15',
  'an old price may come back');
select set_model_price('_smp a', 1, 1, valid_from => '2026-02-01 00:00+00');
select is(left(pg_temp.prices('_smp a'), 23), '2026-02-01 00:00: 1/1/1', 'a price may be noted for the past');
select set_model_price('_smp a', 0, 0, 0, '2026-03-01 12:00+00');
select matches(pg_temp.prices('_smp a'), '2026-03-01 12:00: 0/0/0$', 'a model may be free');
select set_model_price('_smp a', 999999.99, 0.000001, 0, '2026-03-01 13:00+00');
select matches(pg_temp.prices('_smp a'), '13:00: 999999.99/0/0.000001$', 'prices are exact');

select results_eq($$select e.actor, e.detail from task_events e where e.kind = 'price_set' order by e.id limit 2$$,
  $$values ('test_owner', '{"model": "_smp a", "valid_from": "2026-03-01T09:00:00+00:00", "input_usd": 3, "cached_usd": 3, "output_usd": 15}'::jsonb),
           ('test_owner', '{"model": "_smp a", "valid_from": "2026-03-01T10:00:00+00:00", "input_usd": 2, "cached_usd": 0.5, "output_usd": 10}')$$,
  'an event says who set which price, from when on');
select is((select count(*) from task_events e where e.kind = 'price_set'), 7::bigint, 'but for the one that was no new price');

create temporary table before as select * from model_prices;
select throws_ok(format('select set_model_price(%s)', a), 'LQ400', null, a || ' is refused')
from unnest(array[
  $$null, 1, 1$$, $$'', 1, 1$$, $$' ', 1, 1$$, $$'_smp a ', 1, 1$$, $$repeat('x', 201), 1, 1$$,
  $$'_smp a', null, 1$$, $$'_smp a', 1, null$$, $$'_smp a', -0.01, 1$$, $$'_smp a', 1, -1$$, $$'_smp a', 1, 1, -1$$,
  $$'_smp a', 1000000, 1$$, $$'_smp a', 1, 1000000$$, $$'_smp a', 1, 1, 1000000$$,
  $$'_smp a', 'NaN', 1$$, $$'_smp a', 1, 'NaN'$$, $$'_smp a', 1, 1, 'NaN'$$, $$'_smp a', 'Infinity', 1$$, $$'_smp a', 1, '-Infinity'$$]) a;
select set_eq('select * from model_prices', 'select * from before', 'and changes nothing');

set session authorization test_operator;
select lives_ok($$select set_model_price('_smp b', 1, 1)$$, 'an operator may set prices');
set session authorization test_web;
select throws_ok($$select set_model_price('_smp b', 2, 2)$$, '42501', null, 'the web process may not');
set session authorization test_agent;
select throws_ok($$select set_model_price('_smp b', 2, 2)$$, '42501', null, 'an agent may not');
set session authorization test_owner;
select matches(pg_temp.prices('_smp b'), ': 1/1/1$', 'so the operator''s price stands');
select results_eq($$select e.actor, e.session_actor from task_events e where e.kind = 'price_set' and e.detail ->> 'model' = '_smp b'$$,
  $$values ('test_operator', 'test_operator')$$, 'as the operator''s act');

select * from finish();
rollback;
