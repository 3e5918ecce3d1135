-- The indexes that agent_status counts on.
do $$
declare
  v_index text;
begin
  foreach v_index in array array['task_attempts_rate_limited', 'task_events_rate_limited'] loop
    assert (select i.indisvalid from pg_index i where i.indexrelid = to_regclass('lakequeue.' || v_index)),
      format('index %s is missing or invalid', v_index);
  end loop;
end $$;
