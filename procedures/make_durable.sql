-- Waits until all that was committed before is safe from a crash, also without having waited for it (dequeue_tasks with
-- durable => false): a transaction with an id writes its end, and waits as synchronous_commit says until that, and so all
-- before it, is written. Call it in a transaction of its own (autocommit): one that dequeues as well does not wait.
create or replace function lakequeue.make_durable()
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  perform pg_current_xact_id();
end $$;

comment on function lakequeue.make_durable() is 'Waits until all that was committed before is safe from a crash.';
