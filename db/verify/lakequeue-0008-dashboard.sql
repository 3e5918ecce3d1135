-- The dashboard's tables, the hours of deltas, and the indexes of the event log.
select from_hour, to_hour from lakequeue.task_deltas where false;
select agent_id, customer, status, hour, tasks from lakequeue.hourly_rollups where false;
select at, agent_id, enqueued, processing from lakequeue.queue_samples where false;
do $$
declare
  v_index text;
begin
  foreach v_index in array array['task_events_at', 'task_events_kind', 'task_events_actor', 'task_events_agent'] loop
    assert (select i.indisvalid from pg_index i where i.indexrelid = to_regclass('lakequeue.' || v_index)),
      format('index %s is missing or invalid', v_index);
  end loop;
end $$;
