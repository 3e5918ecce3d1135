-- Sets what a model costs from a point in time on. A price is never changed backwards for attempts already settled.
--
-- model: as agents report it. input_usd, output_usd, cached_usd: USD per million tokens; cached_usd by default as
-- input. valid_from: by default now. The same price again is no new price, and no event.
-- Errors: LQ400 a blank model, a negative price or one of a million dollars and more.
create or replace function lakequeue.set_model_price(
  model text, input_usd numeric, output_usd numeric, cached_usd numeric default null,
  valid_from timestamptz default null)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_from timestamptz := coalesce(valid_from, _now());
  v_cached numeric := coalesce(cached_usd, input_usd);
begin
  if _clean_text(model, 200) is distinct from model or model is null or input_usd is null or output_usd is null
     or not (least(input_usd, output_usd, v_cached) >= 0 and greatest(input_usd, output_usd, v_cached) < 1e6) then
    raise exception using errcode = 'LQ400', message = 'a price needs a model and USD per million tokens, 0 to 999999',
      hint = 'Example: select lakequeue.set_model_price(''my-model'', input_usd => 3, output_usd => 15).';
  end if;

  -- The same price again is no new price.
  if exists (
    select from (
      select p.input_usd, p.output_usd, p.cached_usd from model_prices p
      where p.model = set_model_price.model and p.valid_from <= v_from order by p.valid_from desc limit 1) p
    where (p.input_usd, p.output_usd, p.cached_usd) = (set_model_price.input_usd, set_model_price.output_usd, v_cached))
  then
    return;
  end if;
  insert into model_prices as p (model, valid_from, input_usd, cached_usd, output_usd)
  values (set_model_price.model, v_from, set_model_price.input_usd, v_cached, set_model_price.output_usd)
  on conflict on constraint model_prices_pkey do update
  set input_usd = excluded.input_usd, cached_usd = excluded.cached_usd, output_usd = excluded.output_usd;
  perform _log_event('price_set', detail => jsonb_build_object(
    'model', model, 'input_usd', input_usd, 'cached_usd', v_cached, 'output_usd', output_usd,
    'valid_from', _tellable(v_from)));
end $$;

comment on function lakequeue.set_model_price(text, numeric, numeric, numeric, timestamptz) is
  'Sets what a model costs from a point in time on, in USD per million tokens.';
