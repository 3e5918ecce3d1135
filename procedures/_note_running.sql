-- Notes which attempts run at these endpoints (running_books), so that counts look at those and at younger ones, and pass
-- none of the entries of attempts that have ended, which a snapshot held by somebody else keeps. A list, not a bound: one
-- long document would hold a bound back for ever.
--
-- Locks: the caller holds the throttle locks of the endpoints exclusively, so that no claim is under way.
create or replace function lakequeue._note_running(endpoints integer[])
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_newest bigint := coalesce(pg_sequence_last_value('lakequeue.task_attempts_id_seq'), 0);
begin
  -- A long list is written again once as many claims have gone by.
  insert into running_books as k (endpoint_id, no, after_id, running)
  select e.id, 1, 0, '{}' from unnest(endpoints) e(id)
  where not exists (select from running_books b where b.endpoint_id = e.id);
  update running_books k
  set no = k.no + 1, after_id = v_newest, running = array(select r.id from _running(array[k.endpoint_id]) r)
  from unnest(endpoints) e(id)
  cross join lateral (
    select b.no from running_books b where b.endpoint_id = e.id order by b.no desc limit 1) newest
  where k.endpoint_id = e.id and k.no = newest.no and v_newest - k.after_id >= cardinality(k.running);
end $$;

comment on function lakequeue._note_running(integer[]) is 'Notes which attempts run at these endpoints.';
