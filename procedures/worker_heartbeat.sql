-- Keeps a worker's row; the first call makes it. A worker that is silent for a minute is taken for dead: its attempts
-- without a run are adopted, the others end by their leases.
--
-- worker: name, unique per process start. host, pid, version: shown to people. stopping: the last heartbeat. relay: where it
-- runs agents, local or databricks, which decides what it is given (see dequeue_tasks, runs_to_check).
-- Returns the schema version, so that a worker that meets another one than its own can restart.
-- Errors: LQ400 a blank name, or no such relay; LQ421 it worked here before quiesce.
create or replace function lakequeue.worker_heartbeat(
  worker text, host text default null, pid integer default null, version text default null,
  stopping boolean default false, relay text default null)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
begin
  if _clean_text(worker, 200) is distinct from worker or worker is null then
    raise exception using errcode = 'LQ400', message = 'a worker needs a name of 1 to 200 characters',
      hint = 'Make it unique per process start: host, pid and something random.';
  end if;
  if relay not in ('local', 'databricks') then
    raise exception using errcode = 'LQ400', message = format('"%s" is no relay', left(relay, 100)), hint = 'Relays: local, databricks.';
  end if;
  if (select w.dismissed from workers w where w.name = worker) then
    raise exception using errcode = 'LQ421', message = 'this database is a copy that was quiesced while the worker was connected',
      hint = 'What it still knows is the original''s: start it again.';
  end if;
  insert into workers as w (name, host, pid, version, relay, started_at, heartbeat_at, stopped_at)
  values (worker, host, pid, version, relay, v_now, v_now, case when stopping then v_now end)
  on conflict on constraint workers_pkey do update
  set heartbeat_at = v_now,
      stopped_at = case when stopping then v_now end,
      host = coalesce(excluded.host, w.host),
      pid = coalesce(excluded.pid, w.pid),
      version = coalesce(excluded.version, w.version),
      relay = coalesce(excluded.relay, w.relay);
  return schema_version();
end $$;

comment on function lakequeue.worker_heartbeat(text, text, integer, text, boolean, text) is
  'Keeps a worker''s row and returns the schema version.';
