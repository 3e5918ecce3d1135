-- What is configured, to be read back: a row for each agent, endpoint, model price and person, and one for the installation
-- (without its secret).
--
-- Returns kind (agent, endpoint, price, person, installation); name: of the agent, endpoint, model or person, the
--   installation's id; settings: what configure_agent, configure_endpoint, set_model_price, set_person, set_time_zone have set,
--   by column (db/README.md, The tables), and what was learnt since; null where
--   there is no limit. Times are UTC, whatever the session's time zone.
create or replace function lakequeue.configuration()
returns table (kind text, name text, settings jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set timezone = 'UTC'
set intervalstyle = 'postgres'
set extra_float_digits = 1
as $$
#variable_conflict use_column
begin
  return query
    select c.kind, c.name, c.settings
    from (
      select 1 as place, 'agent' as kind, a.name, null::timestamptz as since,
             to_jsonb(a) - array['id', 'name', 'model_endpoint_id', 'former_endpoint_ids'] || jsonb_build_object('model_endpoint', e.name)
               as settings
      from agents a
      join model_endpoints e on e.id = a.model_endpoint_id
      union all
      select 2, 'endpoint', e.name, null, to_jsonb(e) - array['id', 'name', 'overdue_at'] from model_endpoints e
      union all
      select 3, 'price', p.model, p.valid_from, to_jsonb(p) - 'model' || jsonb_build_object('valid_from', _tellable(p.valid_from))
      from model_prices p
      union all
      select 4, 'person', p.identity, null, to_jsonb(p) - 'identity' from people p
      union all
      select 5, 'installation', i.id::text, null, to_jsonb(i) - array['id', 'secret', 'only_row'] from installation i
    ) c
    order by c.place, c.name, c.since;
end $$;

comment on function lakequeue.configuration() is 'What is configured: agents, endpoints, prices, people, the installation.';
