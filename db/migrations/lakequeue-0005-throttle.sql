-- depends: lakequeue-0004-ledger
-- Limits where providers set them (input and output tokens, requests), reservations of single model calls, a bound for
-- passing over, a breaker, and what estimates have learnt.

set local role lakequeue_owner;

alter table lakequeue.model_endpoints
  add column max_input_tpm bigint check (max_input_tpm > 0),
  add column max_output_tpm bigint check (max_output_tpm > 0),
  add column max_rpm bigint check (max_rpm > 0),
  add column max_passed_over interval not null default '2 minutes' check (max_passed_over between '0' and '1 day'),
  add column overdue_at timestamptz;
comment on column lakequeue.model_endpoints.max_input_tpm is 'Input tokens per minute; null: no limit.';
comment on column lakequeue.model_endpoints.max_output_tpm is
  'Output tokens per minute, where the provider reserves max_tokens up front; null: no limit.';
comment on column lakequeue.model_endpoints.max_rpm is 'Requests per minute; null: no limit.';
comment on column lakequeue.model_endpoints.max_passed_over is
  'How long a task that does not fit may be passed over by others of its priority and lower ones.';
comment on column lakequeue.model_endpoints.overdue_at is
  'When the first task that was passed over will have been so for max_passed_over; null: none is known.';

alter table lakequeue.agents
  add column max_input_tpm bigint check (max_input_tpm > 0),
  add column max_output_tpm bigint check (max_output_tpm > 0),
  add column max_rpm bigint check (max_rpm > 0),
  add column reserves_calls boolean not null default false,
  add column output_share real not null default 0.25 check (output_share between 0 and 1),
  add column breaker_failures integer not null default 10 check (breaker_failures between 0 and 1000),
  add column failures_in_a_row integer not null default 0 check (failures_in_a_row >= 0),
  add column learnt_at timestamptz,
  add column learnt_from integer not null default 0,
  add column estimate_factor real not null default 1.5 check (estimate_factor > 0 and estimate_factor <= 100),
  add column estimate_error_p50 real,
  add column estimate_error_p95 real,
  add column run_input_tpm real check (run_input_tpm >= 0),
  add column run_output_tpm real check (run_output_tpm >= 0),
  add column run_rpm real check (run_rpm >= 0);
comment on column lakequeue.agents.max_input_tpm is 'Input tokens per minute of this agent; null: no limit.';
comment on column lakequeue.agents.max_output_tpm is 'Output tokens per minute of this agent; null: no limit.';
comment on column lakequeue.agents.max_rpm is 'Requests per minute of this agent; null: no limit.';
comment on column lakequeue.agents.reserves_calls is
  'Its runs ask reserve_tokens before every model call: the window is kept call by call, and dequeue admits by mean rate.';
comment on column lakequeue.agents.output_share is 'Part of an estimate that is output, where only a total is known.';
comment on column lakequeue.agents.breaker_failures is 'So many failures in a row pause the agent; 0: never.';
comment on column lakequeue.agents.failures_in_a_row is
  'Failures since the last success; verdicts on a document, rate limits and cancels do not count.';
comment on column lakequeue.agents.learnt_at is 'When the figures below were last learnt.';
comment on column lakequeue.agents.learnt_from is 'From how many attempts.';
comment on column lakequeue.agents.estimate_factor is
  'What estimates are multiplied by: 1.5 until completed tasks have taught what attempts really use.';
comment on column lakequeue.agents.estimate_error_p50 is 'Median of used / estimated - 1 of the last attempts.';
comment on column lakequeue.agents.estimate_error_p95 is '95th percentile of used / estimated - 1 of the last attempts.';
comment on column lakequeue.agents.run_input_tpm is
  'Prompt tokens per minute that one run asks for while it need not wait; learnt from its calls; null: not known yet.';
comment on column lakequeue.agents.run_output_tpm is 'Answer tokens per minute of one run; likewise.';
comment on column lakequeue.agents.run_rpm is 'Requests per minute of one run; likewise.';

alter table lakequeue.task_attempts
  add column reserves_calls boolean not null default false,
  add column raised numeric[];
create index task_attempts_raised on lakequeue.task_attempts (endpoint_id, run_ended_at) where raised is not null;
comment on column lakequeue.task_attempts.reserves_calls is
  'Its window is kept by model_calls, not by its estimate: as its agent was configured at the claim, or since it first asked.';
comment on column lakequeue.task_attempts.raised is
  'By how much its reports have raised what it counts in a window, by kind of limit; null: nothing.';

-- The books of the throttle: what is spent of a limit at most, so that a dequeue need not count. One row per endpoint and
-- agent with limits; each change takes the next number, so that the newest is always the first of its index, however
-- many dead ones a held snapshot keeps.
create table lakequeue.throttle_books (
  scope text not null check (scope in ('endpoint', 'agent')),
  scope_id integer not null,
  no bigint not null,
  used numeric[],
  booked numeric[],
  raised numeric[] not null,
  primary key (scope, scope_id, no)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table lakequeue.throttle_books is
  'What is spent of each limit at most; written under the throttle lock of the endpoint only.';
comment on column lakequeue.throttle_books.scope is 'Whose limits: endpoint or agent.';
comment on column lakequeue.throttle_books.scope_id is 'Its id.';
comment on column lakequeue.throttle_books.no is 'Rises with each change.';
comment on column lakequeue.throttle_books.used is
  'An upper bound of what is used, by kind (see _kinds): the last count and all that was admitted since; null: to be counted.';
comment on column lakequeue.throttle_books.booked is 'Likewise of what is booked.';
comment on column lakequeue.throttle_books.raised is 'What was raised (see _raised) when the bounds were last written.';

alter table lakequeue.tasks add column passed_over_at timestamptz;
comment on column lakequeue.tasks.passed_over_at is
  'Since when tasks of its priority or a lower one have passed it, for want of room.';

create table lakequeue.model_calls (
  id bigint generated always as identity primary key,
  attempt_id bigint not null,
  key uuid not null,
  endpoint_id integer not null,
  agent_id integer not null,
  priority smallint not null,
  input_tokens bigint not null check (input_tokens >= 0),
  output_tokens bigint not null check (output_tokens >= 0),
  asked_at timestamptz not null,
  seen_at timestamptz not null,
  agent_limit boolean not null default false,
  granted_at timestamptz,
  ended_at timestamptz,
  raised numeric[],
  constraint granted_before_ended check (granted_at is not null or ended_at is null)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
create unique index model_calls_key on lakequeue.model_calls (attempt_id, key);
create index model_calls_window on lakequeue.model_calls (endpoint_id, ended_at) where granted_at is not null;
create index model_calls_raised on lakequeue.model_calls (endpoint_id, ended_at) where raised is not null;
create index model_calls_waiting on lakequeue.model_calls (endpoint_id, priority desc, id) where granted_at is null;
comment on table lakequeue.model_calls is
  'Model calls that agents reserved: waiting, under way, or ended within the last minutes.';
comment on column lakequeue.model_calls.id is 'Order of asking.';
comment on column lakequeue.model_calls.attempt_id is 'The attempt that makes it.';
comment on column lakequeue.model_calls.key is 'The agent''s own name for it: asking again with it is the same call.';
comment on column lakequeue.model_calls.endpoint_id is 'The endpoint it spends at.';
comment on column lakequeue.model_calls.agent_id is 'The agent.';
comment on column lakequeue.model_calls.priority is 'Priority of its task: who waits first.';
comment on column lakequeue.model_calls.input_tokens is 'Prompt tokens: counted before the call, settled after it.';
comment on column lakequeue.model_calls.output_tokens is 'Answer tokens: max_tokens before the call, settled after it.';
comment on column lakequeue.model_calls.asked_at is 'When it was first asked for.';
comment on column lakequeue.model_calls.seen_at is 'When it was last asked for; one not asked for again in 10 seconds holds up nobody.';
comment on column lakequeue.model_calls.agent_limit is 'It waits for a limit of its agent alone, so that other agents may pass it.';
comment on column lakequeue.model_calls.granted_at is 'When it might start; null: it waits.';
comment on column lakequeue.model_calls.ended_at is 'When it ended; null: it waits or is under way.';
comment on column lakequeue.model_calls.raised is 'What it used beyond its reservation, by kind of limit; null: nothing.';

-- How often an agent met a 429 lately, without a look at history: rate limits are the exception, so both are small.
create index task_attempts_rate_limited on lakequeue.task_attempts (agent_id, ended_at) where status = 'rate_limited';
create index task_events_rate_limited on lakequeue.task_events (agent_id, at) where kind = 'rate_limited';
