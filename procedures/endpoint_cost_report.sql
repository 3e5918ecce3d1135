-- Model cost per endpoint and day: as billed, beside the sum of the estimates that traces carried. Billing knows the
-- endpoint, never the run: what is billed is of all who call it, other applications too, by days in UTC; the estimate is
-- of the finished tasks of the agents that use the endpoint now, by days in the reporting time zone.
--
-- from_day, to_day, agents: the filter, as in queue_metrics.
-- Returns a row per endpoint, day and currency; an estimate is in USD. billed is null where billing was not asked, or
--   has said nothing yet; estimate is null where none is known. fetched_at: when billing was asked.
-- Errors: LQ404 an unknown agent.
create or replace function lakequeue.endpoint_cost_report(
  from_day date default null, to_day date default null, agents text[] default null)
returns table (endpoint text, day date, currency text, billed numeric, estimate numeric, fetched_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_agent_ids integer[] := _agent_ids(agents);
begin
  return query
    with used as materialized (
      select g.id as agent_id, e.name as endpoint
      from agents g join model_endpoints e on e.id = g.model_endpoint_id
      where g.id = any(v_agent_ids)
    ), estimated as (
      select u.endpoint, m.day, 'USD' as currency, sum(m.llm_cost) as estimate
      from _ledger(v_agent_ids, _statuses(null), null, from_day, to_day) m join used u on u.agent_id = m.agent_id
      where m.day is not null
      group by u.endpoint, m.day
      having sum(m.cost_told) > 0
    ), billed as (
      select c.endpoint, c.day, c.currency, sum(c.list_cost) as billed, max(c.fetched_at) as fetched_at
      from endpoint_costs c
      where c.endpoint in (select u.endpoint from used u)
        and c.day >= coalesce(from_day, c.day) and c.day <= coalesce(to_day, c.day)
      group by c.endpoint, c.day, c.currency
    )
    select coalesce(b.endpoint, s.endpoint), coalesce(b.day, s.day), coalesce(b.currency, s.currency), b.billed, s.estimate,
           b.fetched_at
    from billed b
    full join estimated s on s.endpoint = b.endpoint and s.day = b.day and s.currency = b.currency
    order by 2 desc, 1, 3;
end $$;

comment on function lakequeue.endpoint_cost_report(date, date, text[]) is
  'Model cost per endpoint and day, as billed, beside the sum of estimates.';
