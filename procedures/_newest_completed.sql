-- The newest completed tasks under the filter: a bounded read, see _finished_tasks; of customers see _sample_from.
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
  v_from record;
begin
  if sample is null or sample not between 1 and 10000 then
    raise exception using errcode = 'LQ400', message = 'sample must be 1 to 10000', hint = 'The default is 1000.';
  end if;
  v_from := _sample_from(v_agent_ids, v_completed, from_day, to_day, customers, sample);
  tasks := array(
    select f.task_id from _finished_tasks(v_agent_ids, v_completed, v_from.day, to_day, customers, sample + 1) f);
  more := v_from.more or cardinality(tasks) > sample;
  tasks := tasks[:sample];
end $$;

comment on function lakequeue._newest_completed(date, date, text[], text[], text[], integer) is
  'The newest completed tasks under one filter, a sample of them, and whether there are more.';
