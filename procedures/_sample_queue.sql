-- Notes how many tasks of each agent wait and run, once in 5 minutes; forgets that, and response times by the hour, after
-- 35 days. Called by fold_rollups under its lock, so that one at a time counts.
create or replace function lakequeue._sample_queue()
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_at timestamptz := date_bin('5 minutes', _now(), timestamptz '2000-01-01 00:00+00');
begin
  if exists (select from queue_samples q where q.at = v_at) then
    return;
  end if;
  insert into queue_samples (at, agent_id, enqueued, processing)
  select v_at, a.id, coalesce(l.enqueued, 0), coalesce(l.processing, 0)
  from agents a
  left join (
    select r.agent_id, sum(r.tasks) filter (where r.status = 'enqueued') as enqueued,
           sum(r.tasks) filter (where r.status = 'processing') as processing
    from _ledger(array(select g.id from agents g), '{enqueued,processing}', null) r
    group by r.agent_id) l on l.agent_id = a.id;
  delete from queue_samples q where q.at < v_at - interval '35 days';
  -- The key has the customer before the hour, so all rows are passed: only if there is something to forget.
  if (select true from hourly_histogram h
      where h.agent_id = 0 and h.customer is null and h.hour < v_at - interval '35 days' limit 1) then
    delete from hourly_histogram h where h.hour < v_at - interval '35 days';
  end if;
end $$;

comment on function lakequeue._sample_queue() is 'Notes once in 5 minutes how many tasks wait and run.';
