-- Everything that a run needs to know, for attempts that are there already (of new ones _claim tells it), in rule 2's order.
--
-- attempts: ids. how: what to say in outcome.
create or replace function lakequeue._claims(attempts bigint[], how text)
returns table (
  outcome text, task_id bigint, attempt_id bigint, attempt_number integer, agent text, job_id bigint,
  run_key uuid, callback_token text, customer text, document_path text, payload jsonb, page_count integer,
  priority smallint, estimated_tokens bigint, max_tpm bigint, lease_duration interval,
  lease_expires_at timestamptz, parameters jsonb, model_prices jsonb, reserves_calls boolean)
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
declare
  v_prices jsonb := (select p.prices from _model_prices() p);
  v_secret bytea := (select i.secret from installation i);
begin
  return query
    select how, t.id, a.id, a.number, g.name, a.job_id,
           a.run_key, _derive_token(a.id, a.run_key, v_secret), t.customer, t.document_path, t.payload, t.page_count,
           t.priority, a.estimated_tokens,
           -- no join: with old statistics the planner reads every attempt of the endpoint to find these few
           least(g.max_tpm, (select e.max_tpm from model_endpoints e where e.id = a.endpoint_id)), g.lease_duration,
           t.lease_expires_at, g.parameters, v_prices, a.reserves_calls
    from task_attempts a
    -- LIMIT keeps it a probe: planned while there were few tasks, a join reads them all, and a worker keeps that plan
    cross join lateral (select x.* from tasks x where x.id = a.task_id limit 1) t
    join agents g on g.id = a.agent_id
    where a.id = any(attempts)
    order by t.priority desc, t.created_at, t.id;
end $$;

comment on function lakequeue._claims(bigint[], text) is 'Attempts with all that their runs need to know.';
