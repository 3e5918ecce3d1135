-- The newest completed tasks under the filter, one more than the sample if there are more: a short index scan per agent,
-- however long the history.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics. sample: 1 to 10000.
-- Errors: LQ400 sample out of range, an unknown status; LQ404 an unknown agent.
create or replace function lakequeue._newest_completed(
  from_day date, to_day date, statuses text[], agents text[], customers text[], sample integer)
returns setof bigint
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_statuses task_status[] := _statuses(statuses);
  v_agent_ids integer[] := _agent_ids(agents);
  v_zone text := (select i.time_zone from installation i);
  v_from timestamptz := coalesce(from_day::timestamp at time zone v_zone, '-infinity');
  v_to timestamptz := coalesce((to_day + 1)::timestamp at time zone v_zone, 'infinity');
begin
  if sample is null or sample not between 1 and 10000 then
    raise exception using errcode = 'LQ400', message = 'sample must be 1 to 10000', hint = 'The default is 1000.';
  end if;
  return query
    select f.id
    from unnest(v_agent_ids) g(agent_id)
    cross join lateral (
      select t.id, t.finished_at
      from tasks t
      where t.agent_id = g.agent_id and t.status = 'completed' and t.finished_at is not null
        and 'completed' = any(v_statuses)
        and t.finished_at >= v_from and t.finished_at < v_to
        and (customers is null or t.customer = any(customers))
      order by t.finished_at desc, t.id desc
      limit sample + 1
    ) f
    order by f.finished_at desc, f.id desc
    limit sample + 1;
end $$;

comment on function lakequeue._newest_completed(date, date, text[], text[], text[], integer) is
  'The newest completed tasks under one filter, one more than the sample if there are more.';
