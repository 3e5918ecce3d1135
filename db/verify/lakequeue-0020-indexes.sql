-- The indexes that no function reads are gone.
do $$
declare
  v_index text;
begin
  foreach v_index in array array['tasks_extraction', 'compute_runs_task'] loop
    assert to_regclass('lakequeue.' || v_index) is null, format('index %s is still there', v_index);
  end loop;
end $$;
