-- Prices in force: {"model": {"input_usd": ..., "cached_usd": ..., "output_usd": ...}}, USD per million tokens. One row.
create or replace function lakequeue._model_prices()
returns table (prices jsonb)
language sql stable
begin atomic
  select coalesce(jsonb_object_agg(p.model, jsonb_build_object(
           'input_usd', p.input_usd, 'cached_usd', p.cached_usd, 'output_usd', p.output_usd)
           order by p.model, p.valid_from), '{}')  -- the last of a model stays
  from lakequeue.model_prices p
  where p.valid_from <= lakequeue._now();
end;

comment on function lakequeue._model_prices() is 'Prices in force, by model.';
