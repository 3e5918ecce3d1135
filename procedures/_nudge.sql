-- Sends an empty notification, unless another open transaction is about to: NOTIFY takes a lock for the whole cluster
-- at commit, so a burst of commits should send few. A listener therefore looks again half a second after a nudge.
-- Repeats within a transaction are one notification.
--
-- channel: lakequeue_worker (something may be claimable) or lakequeue_changes (a status changed).
-- Returns whether it is sent.
-- Locks: an advisory guard of the channel, tried, never waited for.
create or replace function lakequeue._nudge(channel text)
returns boolean
language sql volatile
return pg_try_advisory_xact_lock(lakequeue._lock_class(), case channel when 'lakequeue_worker' then -1 else -2 end)
  and pg_notify(channel, '') is not null;

comment on function lakequeue._nudge(text) is 'Sends an empty notification, unless another transaction is about to.';
