-- Open calls have places, sweeps a book; the indexes have what these count on, and none has what a grant changes.
select place from lakequeue.model_calls where false;
select endpoint_id, no, call_from from lakequeue.running_books where false;
select no, retries_from, calls_from, looked_at from lakequeue.sweep_books where false;
do $$
begin
  assert pg_get_indexdef('lakequeue.model_calls_open'::regclass, 2, true) = 'place', 'model_calls_open has no places';
  assert pg_get_indexdef('lakequeue.task_attempts_raised'::regclass, 3, true) = 'place', 'task_attempts_raised has no places';
  assert not exists (
    select from pg_index i
    where i.indrelid = 'lakequeue.model_calls'::regclass and pg_get_indexdef(i.indexrelid) ~ 'granted_at|seen_at|priority|agent_limit'),
    'a grant changes an indexed column of model_calls';
end $$;
