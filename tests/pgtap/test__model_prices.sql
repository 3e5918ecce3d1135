-- The prices in force: of each model the newest that has begun.
begin;
select plan(8);

select set_clock('2026-03-01 09:00+00');
select is(_model_prices() ? '_mp a', false, 'a model without a price is not there');
select set_model_price('_mp a', 3, 15, 0.3, '2026-01-01 00:00+00');
select set_model_price('_mp a', 2, 10, 0.2, '2026-03-01 09:00+00');
select set_model_price('_mp a', 1, 5, 0.1, '2026-03-01 09:00:00.000001+00');
select set_model_price('_mp b', 0, 0, 0, '2025-01-01 00:00+00');
select set_model_price('_mp later', 1, 1, 1, '2026-03-02 00:00+00');

select is(_model_prices() -> '_mp a', '{"input_usd": 2, "cached_usd": 0.2, "output_usd": 10}', 'the newest one begun counts, from its moment on');
select is(_model_prices() -> '_mp b', '{"input_usd": 0, "cached_usd": 0, "output_usd": 0}', 'a free model has a price of nothing');
select is(_model_prices() ? '_mp later', false, 'a price that begins later is not there yet');
select advance('1 day');
select is(_model_prices() -> '_mp a' -> 'input_usd', '1', 'with time the next price comes in');
select is(_model_prices() ? '_mp later', true, 'also a first one');
delete from model_prices;
select is(_model_prices(), '{}'::jsonb, 'without any price it is an empty object, not null');

set session authorization test_worker;
select throws_ok('select lakequeue._model_prices()', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
