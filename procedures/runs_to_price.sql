-- The job runs whose compute cost may still change: of the newest finished tasks under the filter (20,000 at most),
-- those that billing has not settled yet. Those never asked for come first, then the longest not asked for. Local runs
-- are none, nor are those that a copy inherited (see quiesce).
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- batch_size: most runs, 1 to 10000.
-- Returns asked_at: when billing last answered for the run, null for never.
-- Errors: LQ400 batch_size out of range, an unknown status; LQ404 an unknown agent.
create or replace function lakequeue.runs_to_price(
  from_day date default null, to_day date default null, statuses text[] default null, agents text[] default null,
  customers text[] default null, batch_size integer default 5000)
returns table (attempt_id bigint, task_id bigint, run_id bigint, started_at timestamptz, asked_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  if batch_size is null or batch_size not between 1 and 10000 then
    raise exception using errcode = 'LQ400', message = 'batch_size must be 1 to 10000', hint = 'The default is 5000.';
  end if;
  return query
    select a.id, a.task_id, a.run_id, a.started_at, r.asked_at
    from _finished_tasks(_agent_ids(runs_to_price.agents), _statuses(runs_to_price.statuses), from_day, to_day, customers, 20000) f
    cross join lateral (  -- OFFSET and LIMIT keep these probes, whatever the statistics say
      select t.* from task_attempts t where t.task_id = f.task_id and t.run_id is not null offset 0) a
    left join lateral (select c.* from compute_runs c where c.attempt_id = a.id limit 1) r on true
    where a.job_id is not null and r.settled is not true
      and a.id > (select i.inherited_attempts from installation i)
    order by r.asked_at nulls first, a.id desc
    limit batch_size;
end $$;

comment on function lakequeue.runs_to_price(date, date, text[], text[], text[], integer) is
  'Job runs whose compute cost may still change, under one filter: never asked for first.';
