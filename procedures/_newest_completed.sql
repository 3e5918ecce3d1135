-- The newest completed tasks under the filter, one more than the sample if there are more: a bounded read, see
-- _finished_tasks.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics. sample: 1 to 10000.
-- Errors: LQ400 sample out of range, an unknown status; LQ404 an unknown agent.
create or replace function lakequeue._newest_completed(
  from_day date, to_day date, statuses text[], agents text[], customers text[], sample integer)
returns setof bigint
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if sample is null or sample not between 1 and 10000 then
    raise exception using errcode = 'LQ400', message = 'sample must be 1 to 10000', hint = 'The default is 1000.';
  end if;
  return query
    select f.task_id
    from _finished_tasks(
      _agent_ids(agents), array(select s.status from unnest(_statuses(statuses)) s(status) where s.status = 'completed'),
      from_day, to_day, customers, sample + 1) f;
end $$;

comment on function lakequeue._newest_completed(date, date, text[], text[], text[], integer) is
  'The newest completed tasks under one filter, one more than the sample if there are more.';
