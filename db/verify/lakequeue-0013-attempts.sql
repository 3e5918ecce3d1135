-- The index that keeps a task to one attempt that runs or has succeeded is there and valid.
do $$
begin
  assert (select i.indisvalid and i.indisunique from pg_index i
          where i.indexrelid = to_regclass('lakequeue.task_attempts_of_task')), 'index task_attempts_of_task is missing or invalid';
end $$;
