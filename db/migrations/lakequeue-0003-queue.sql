-- depends: lakequeue-0002-configuration
-- The queue itself. No foreign keys on the enqueue, claim and finish paths: one to a hot parent cost a third of
-- the enqueue rate. Constraints make wrong states impossible; the trigger guard_task_status refuses wrong changes.

set local role lakequeue_owner;

create table lakequeue.extractions (
  id bigint generated always as identity primary key,
  name text not null check (name <> '' and length(name) <= 500),
  customer text not null default '' check (length(customer) <= 200),
  submitted_by text not null check (submitted_by <> '' and length(submitted_by) <= 320),
  created_at timestamptz not null
);
comment on table lakequeue.extractions is 'One submission of many documents; the parent of tasks.';
comment on column lakequeue.extractions.id is 'Key.';
comment on column lakequeue.extractions.name is 'What the submitter called it.';
comment on column lakequeue.extractions.customer is 'For whom; tasks take it over unless they name another.';
comment on column lakequeue.extractions.submitted_by is 'Who submitted it.';
comment on column lakequeue.extractions.created_at is 'When.';

create table lakequeue.extraction_documents (
  id bigint generated always as identity primary key,
  extraction_id bigint not null,
  name text not null check (name <> '' and length(name) <= 4096),
  task_id bigint,
  refusal text check (length(refusal) <= 4000),
  check ((task_id is null) <> (refusal is null))
);
create index extraction_documents_extraction on lakequeue.extraction_documents (extraction_id, id);
comment on table lakequeue.extraction_documents is
  'The documents of an extraction as submitted: a file sent twice or refused still stands on its page.';
comment on column lakequeue.extraction_documents.id is 'Key; ascending in the order of submission.';
comment on column lakequeue.extraction_documents.extraction_id is 'Its extraction.';
comment on column lakequeue.extraction_documents.name is 'The document as the submitter knows it.';
comment on column lakequeue.extraction_documents.task_id is 'Its task, perhaps one of an earlier extraction; null if refused.';
comment on column lakequeue.extraction_documents.refusal is 'Why no task was made; null if one was.';

create table lakequeue.tasks (
  id bigint generated always as identity primary key,
  agent_id integer not null,
  extraction_id bigint,
  customer text not null default '' check (length(customer) <= 200),
  document_path text not null check (document_path <> '' and length(document_path) <= 4096),
  payload jsonb check (pg_column_size(payload) <= 8192),
  dedup_key text check (dedup_key <> '' and length(dedup_key) <= 200),
  priority smallint not null check (priority between 0 and 9),
  status lakequeue.task_status not null default 'enqueued',
  created_at timestamptz not null,
  retry_at timestamptz,
  estimated_tokens bigint not null check (estimated_tokens between 0 and 1000000000000),
  page_count integer check (page_count >= 0),
  document_bytes bigint check (document_bytes >= 0),
  attempt_count integer not null default 0 check (attempt_count >= 0),
  failures integer not null default 0 check (failures >= 0),
  rate_limited integer not null default 0 check (rate_limited >= 0),
  locked_by text,
  lease_expires_at timestamptz,
  cancel_requested_at timestamptz,
  error text check (length(error) <= 4000),
  finished_at timestamptz,
  reprocess_of bigint,
  constraint lease_while_processing
    check ((status = 'processing') = (locked_by is not null) and (status = 'processing') = (lease_expires_at is not null)),
  constraint finished_when_final
    check ((status in ('completed', 'failed', 'cancelled')) = (finished_at is not null)),
  constraint retry_while_enqueued check (retry_at is null or status = 'enqueued'),
  constraint cancel_not_enqueued check (cancel_requested_at is null or status <> 'enqueued')
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

-- No row stands in more than four of these at once. None is on lease_expires_at: heartbeats stay heap-only.
create index tasks_claimable on lakequeue.tasks (agent_id, priority desc, created_at, id)
  where status = 'enqueued' and retry_at is null;
create index tasks_waiting on lakequeue.tasks (retry_at, id)
  where status = 'enqueued' and retry_at is not null;
create index tasks_processing on lakequeue.tasks (agent_id, id)
  where status = 'processing';
create index tasks_finished on lakequeue.tasks (agent_id, status, finished_at, id)
  where finished_at is not null;
create index tasks_extraction on lakequeue.tasks (extraction_id, id)
  where extraction_id is not null;
create unique index tasks_dedup on lakequeue.tasks (agent_id, customer, dedup_key)
  where dedup_key is not null and status not in ('failed', 'cancelled');

comment on table lakequeue.tasks is 'One document to parse. Small, hot rows: results and errors in full stand elsewhere.';
comment on column lakequeue.tasks.id is 'Key.';
comment on column lakequeue.tasks.agent_id is 'The kind of work.';
comment on column lakequeue.tasks.extraction_id is 'The submission it came with.';
comment on column lakequeue.tasks.customer is 'For whom; empty: nobody in particular.';
comment on column lakequeue.tasks.document_path is 'Where the agent finds the document: a volume path, or a local one.';
comment on column lakequeue.tasks.payload is 'Further input for the agent, at most 8 kB.';
comment on column lakequeue.tasks.dedup_key is
  'Two tasks of an agent and customer that are not failed or cancelled never share it; a content hash, as a rule.';
comment on column lakequeue.tasks.priority is '0 to 9; higher goes first.';
comment on column lakequeue.tasks.status is 'State; changed by the functions only.';
comment on column lakequeue.tasks.created_at is 'When it was enqueued: its place within its priority, also after a retry.';
comment on column lakequeue.tasks.retry_at is 'A retry waits until then, and until sweep_leases has cleared it.';
comment on column lakequeue.tasks.estimated_tokens is 'Tokens that an attempt is expected to use at most.';
comment on column lakequeue.tasks.page_count is 'Pages of the document, if the submitter counted them.';
comment on column lakequeue.tasks.document_bytes is 'Size of the document in bytes, if known.';
comment on column lakequeue.tasks.attempt_count is 'Claims so far; numbers the attempts.';
comment on column lakequeue.tasks.failures is 'Attempts that ended failed or expired since it was enqueued or retried; limited by max_attempts.';
comment on column lakequeue.tasks.rate_limited is 'Attempts given back for a rate limit; limited by max_rate_limited.';
comment on column lakequeue.tasks.locked_by is 'The worker that claimed it, while processing.';
comment on column lakequeue.tasks.lease_expires_at is 'Until when the running attempt owns it, while processing.';
comment on column lakequeue.tasks.cancel_requested_at is 'An operator asked a running attempt to stop.';
comment on column lakequeue.tasks.error is 'Error of the last attempt that failed; the attempts have their own.';
comment on column lakequeue.tasks.finished_at is 'When it became completed, failed or cancelled.';
comment on column lakequeue.tasks.reprocess_of is 'The completed task that this one parses again.';

create table lakequeue.task_attempts (
  id bigint generated always as identity primary key,
  task_id bigint not null,
  number integer not null check (number > 0),
  agent_id integer not null,
  endpoint_id integer not null,
  estimated_tokens bigint not null check (estimated_tokens >= 0),
  worker text not null,
  run_key uuid not null default gen_random_uuid(),
  run_id bigint,
  trace_id text check (length(trace_id) <= 500),
  status lakequeue.attempt_status not null default 'running',
  started_at timestamptz not null,
  checked_at timestamptz,
  ended_at timestamptz,
  reported_at timestamptz,
  run_ended_at timestamptz,
  presumed_dead_at timestamptz,
  error_class text check (length(error_class) <= 200),
  error text check (length(error) <= 4000),
  input_tokens bigint check (input_tokens between 0 and 1000000000000),
  output_tokens bigint check (output_tokens between 0 and 1000000000000),
  cached_tokens bigint check (cached_tokens between 0 and 1000000000000),
  llm_cost numeric check (llm_cost >= 0 and llm_cost < 1e9),
  usage_complete boolean not null default false,
  usage_source text check (usage_source in ('callback', 'trace')),
  unique (task_id, number),
  constraint ended_unless_running check ((status = 'running') = (ended_at is null)),
  constraint running_run_lives check (status <> 'running' or run_ended_at is null),
  constraint counts_not_for_ever
    check (status = 'running' or run_ended_at is not null or presumed_dead_at is not null),
  constraint usage_has_source check (not usage_complete or usage_source is not null)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

create unique index task_attempts_running on lakequeue.task_attempts (task_id) where status = 'running';
create unique index task_attempts_succeeded on lakequeue.task_attempts (task_id) where status = 'succeeded';
-- What the throttle reads: run_ended_at is null while a run may spend, then stays in the window for 60 seconds.
create index task_attempts_spending on lakequeue.task_attempts (endpoint_id, run_ended_at);
create index task_attempts_presumed_dead on lakequeue.task_attempts (presumed_dead_at)
  where run_ended_at is null and presumed_dead_at is not null;
create index task_attempts_unsettled on lakequeue.task_attempts (ended_at)
  where ended_at is not null and usage_source is distinct from 'trace';

comment on table lakequeue.task_attempts is 'One execution of a task: who ran it, how it ended, what it used.';
comment on column lakequeue.task_attempts.id is 'Key; the name of the attempt towards agents.';
comment on column lakequeue.task_attempts.task_id is 'Its task.';
comment on column lakequeue.task_attempts.number is '1 for the first attempt of the task.';
comment on column lakequeue.task_attempts.agent_id is 'The agent, as claimed.';
comment on column lakequeue.task_attempts.endpoint_id is 'The endpoint whose budget it spends, as claimed.';
comment on column lakequeue.task_attempts.estimated_tokens is 'The estimate, as claimed.';
comment on column lakequeue.task_attempts.worker is 'The worker that claimed or adopted it.';
comment on column lakequeue.task_attempts.run_key is 'Idempotency token of its run: submitting twice gives one run.';
comment on column lakequeue.task_attempts.run_id is 'Databricks job run (or local run), once submitted.';
comment on column lakequeue.task_attempts.trace_id is 'MLflow trace.';
comment on column lakequeue.task_attempts.status is 'running, or how it ended.';
comment on column lakequeue.task_attempts.started_at is 'When it was claimed.';
comment on column lakequeue.task_attempts.checked_at is 'When runs_to_check last handed it out.';
comment on column lakequeue.task_attempts.ended_at is 'When it was closed; its run may outlive that.';
comment on column lakequeue.task_attempts.reported_at is 'When its agent reported an outcome: the first report counts.';
comment on column lakequeue.task_attempts.run_ended_at is 'When its run was known, or presumed, to spend no more.';
comment on column lakequeue.task_attempts.presumed_dead_at is 'Closed while its run may live: it counts in every limit until then.';
comment on column lakequeue.task_attempts.error_class is 'Kind of error, a short word such as document_encrypted.';
comment on column lakequeue.task_attempts.error is 'Error message.';
comment on column lakequeue.task_attempts.input_tokens is 'Prompt tokens, cached ones included; null: not known.';
comment on column lakequeue.task_attempts.output_tokens is 'Answer tokens; null: not known.';
comment on column lakequeue.task_attempts.cached_tokens is 'Prompt tokens that came from the provider''s cache; null: not known.';
comment on column lakequeue.task_attempts.llm_cost is 'Model cost in USD; null: not known.';
comment on column lakequeue.task_attempts.usage_complete is 'The numbers cover the whole attempt.';
comment on column lakequeue.task_attempts.usage_source is 'Where the numbers came from: the agent''s callback, or its trace.';

create table lakequeue.results (
  attempt_id bigint primary key,
  task_id bigint not null,
  result jsonb not null,
  confidence real check (confidence between 0 and 1),
  stored_at timestamptz not null
);
comment on table lakequeue.results is 'What an attempt found; written once. The succeeded attempt''s result is the task''s.';
comment on column lakequeue.results.attempt_id is 'The attempt that found it.';
comment on column lakequeue.results.task_id is 'Its task.';
comment on column lakequeue.results.result is 'The structured result.';
comment on column lakequeue.results.confidence is '0 to 1, for the whole document; null: not given.';
comment on column lakequeue.results.stored_at is 'When it was stored.';

create table lakequeue.task_events (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  kind text not null check (kind <> ''),
  task_id bigint,
  attempt_id bigint,
  agent_id integer,
  actor text not null,
  session_actor text not null,
  reason text check (length(reason) <= 4000),
  detail jsonb
);
create index task_events_task on lakequeue.task_events (task_id, id) where task_id is not null;
comment on table lakequeue.task_events is
  'Append-only: what people did, and transitions out of the ordinary. Ordinary ones are read from task and attempt.';
comment on column lakequeue.task_events.id is 'Key.';
comment on column lakequeue.task_events.at is 'When.';
comment on column lakequeue.task_events.kind is 'What, e.g. cancel_requested, retried, lease_expired, rate_limited, sweep_error.';
comment on column lakequeue.task_events.task_id is 'The task; null where it is about an agent or endpoint.';
comment on column lakequeue.task_events.attempt_id is 'The attempt, if one was touched.';
comment on column lakequeue.task_events.agent_id is 'The agent.';
comment on column lakequeue.task_events.actor is 'Who did it: a person, or the login.';
comment on column lakequeue.task_events.session_actor is 'The database login that did it.';
comment on column lakequeue.task_events.reason is 'Why, in the actor''s words.';
comment on column lakequeue.task_events.detail is 'Further facts.';

create table lakequeue.workers (
  name text primary key check (name <> '' and length(name) <= 200),
  host text,
  pid integer,
  version text,
  started_at timestamptz not null,
  heartbeat_at timestamptz not null,
  stopped_at timestamptz
) with (fillfactor = 50);
comment on table lakequeue.workers is 'One row per worker process; the name is new at every start.';
comment on column lakequeue.workers.name is 'Name of the process, unique per start.';
comment on column lakequeue.workers.host is 'Where it runs.';
comment on column lakequeue.workers.pid is 'Its process id there.';
comment on column lakequeue.workers.version is 'Version of its code.';
comment on column lakequeue.workers.started_at is 'Its first heartbeat.';
comment on column lakequeue.workers.heartbeat_at is 'Its latest heartbeat.';
comment on column lakequeue.workers.stopped_at is 'When it stopped, or was taken for dead; null: alive.';
