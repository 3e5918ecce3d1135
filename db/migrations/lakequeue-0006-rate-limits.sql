-- depends: lakequeue-0005-throttle
-- How often an agent met a 429 lately, without a look at history: rate limits are the exception, so both are small.

set local role lakequeue_owner;

create index task_attempts_rate_limited on lakequeue.task_attempts (agent_id, ended_at) where status = 'rate_limited';
create index task_events_rate_limited on lakequeue.task_events (agent_id, at) where kind = 'rate_limited';
