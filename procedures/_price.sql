-- What tokens of a model cost at a moment, in USD: ((input - cached) * input price + cached * cached price + output * output
-- price) / a million, cached tokens being a part of the input.
--
-- cached_tokens: null counts as none, which errs on the high side.
-- Returns null where a number or a price in force then is not known: unknown is never 0.
create or replace function lakequeue._price(
  model text, at timestamptz, input_tokens bigint, output_tokens bigint, cached_tokens bigint)
returns numeric
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_cached bigint := least(coalesce(cached_tokens, 0), input_tokens);
begin
  return (
    select ((input_tokens - v_cached) * p.input_usd + v_cached * p.cached_usd + output_tokens * p.output_usd) / 1000000
    from model_prices p
    where p.model = _price.model and p.valid_from <= at
    order by p.valid_from desc
    limit 1);
end $$;

comment on function lakequeue._price(text, timestamptz, bigint, bigint, bigint) is
  'What tokens of a model cost at a moment, in USD; null where that is not known.';
