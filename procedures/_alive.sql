-- Whether a worker lives: it has not stopped, nor been taken for dead, and its heartbeat is at most a minute old.
--
-- worker: its row; of none, as an outer join may have it, the answer is null. at: the time, as _now() tells it.
create or replace function lakequeue._alive(worker lakequeue.workers, at timestamptz)
returns boolean
language sql stable
return worker.stopped_at is null and worker.heartbeat_at >= at - interval '1 minute';

comment on function lakequeue._alive(lakequeue.workers, timestamptz) is 'Whether a worker lives.';
