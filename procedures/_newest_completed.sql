-- The newest completed tasks under the filter: a bounded read, see _finished_tasks. Of customers it passes everybody's tasks
-- on the days on which they have any, so it ends with the day on which it has passed 50 for each one of the sample (a day is
-- read whole): a customer with one task in a thousand has a smaller sample.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics. sample: 1 to 10000.
-- Returns tasks: at most sample ids; more: there are older ones.
-- Errors: LQ400 sample out of range, an unknown status; LQ404 an unknown agent.
create or replace function lakequeue._newest_completed(
  from_day date, to_day date, statuses text[], agents text[], customers text[], sample integer,
  out tasks bigint[], out more boolean)
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_agent_ids integer[] := _agent_ids(agents);
  v_completed task_status[] := array(select s.status from unnest(_statuses(statuses)) s(status) where s.status = 'completed');
  v_first date := from_day;
begin
  if sample is null or sample not between 1 and 10000 then
    raise exception using errcode = 'LQ400', message = 'sample must be 1 to 10000', hint = 'The default is 1000.';
  end if;
  if customers is not null then
    select coalesce(min(p.day) filter (where p.passed < 50 * sample), from_day), bool_or(p.passed >= 50 * sample) into v_first, more
    from (
      select d.day, coalesce(sum(sum(r.tasks)) over (order by d.day desc rows between unbounded preceding and 1 preceding), 0) as passed
      from _newest_days(v_agent_ids, v_completed, from_day, to_day, customers, sample + 1) d
      cross join lateral (
        select coalesce(sum(k.tasks), 0) as tasks
        from task_rollups k
        where k.agent_id = d.agent_id and k.status = d.status and k.day = d.day) r
      group by d.day) p;
  end if;
  tasks := array(
    select f.task_id from _finished_tasks(v_agent_ids, v_completed, v_first, to_day, customers, sample + 1) f);
  more := coalesce(more, false) or cardinality(tasks) > sample;
  tasks := tasks[:sample];
end $$;

comment on function lakequeue._newest_completed(date, date, text[], text[], text[], integer) is
  'The newest completed tasks under one filter, a sample of them, and whether there are more.';
