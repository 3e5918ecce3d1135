-- How sure agents were of their results: over the newest completed documents under the filter, so that it reads a
-- bounded number of rows however long the history.
--
-- from_day, to_day, statuses, agents, customers: the filter, as in queue_metrics.
-- sample: how many documents at most, 1 to 10000; of a rare customer fewer (_newest_completed). low: a
-- confidence below this counts as low.
-- Returns one row: documents looked at; rated: those with a confidence; mean of these, null if there are none;
--   low_rated: how many are below the bound; more: there are older ones that were not looked at.
-- Errors: LQ400 sample or low out of range, an unknown status; LQ404 an unknown agent.
create or replace function lakequeue.confidence_summary(
  from_day date default null, to_day date default null, statuses text[] default null, agents text[] default null,
  customers text[] default null, sample integer default 1000, low real default 0.8)
returns table (documents bigint, rated bigint, mean real, low_rated bigint, more boolean)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_sort = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_newest bigint[];
  v_more boolean;
begin
  if low is null or low not between 0 and 1 then
    raise exception using errcode = 'LQ400', message = 'low must be 0 to 1', hint = 'The default is 0.8.';
  end if;
  select n.tasks, n.more into v_newest, v_more from _newest_completed(from_day, to_day, statuses, agents, customers, sample) n;
  return query
    -- the results of all of them at once, in the order of the index
    select cardinality(v_newest)::bigint, count(r.confidence), avg(r.confidence)::real,
           count(*) filter (where r.confidence < low), v_more
    from results r
    where r.attempt_id = any(array(
      select a.id from task_attempts a where a.task_id = any(v_newest) and a.status = 'succeeded'));
end $$;

comment on function lakequeue.confidence_summary(date, date, text[], text[], text[], integer, real) is
  'How sure agents were of their results, over the newest completed documents under one filter.';
