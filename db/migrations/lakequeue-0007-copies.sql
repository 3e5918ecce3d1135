-- depends: lakequeue-0006-billing
-- Copies: where an installation lives, so that a copy is told from it; what a copy inherited. Which relay a worker uses and
-- where an attempt's run lives, so that runs are looked up where they are. What was purged, so that totals stay provable.

set local role lakequeue_owner;

alter table lakequeue.installation
  add column home text,
  add column quiesced_at timestamptz,
  add column inherited_attempts bigint not null default 0;
comment on column lakequeue.installation.home is
  'Where it lives, as _here says it; noted by the first worker or web process. Elsewhere it is a copy. Null: not noted yet.';
comment on column lakequeue.installation.quiesced_at is 'When it was made a copy that acts for itself; null: never.';
comment on column lakequeue.installation.inherited_attempts is
  'Attempts up to this id are those of the original: their runs, traces and bills are none of ours.';

alter table lakequeue.task_attempts add column job_id bigint;
comment on column lakequeue.task_attempts.job_id is
  'Databricks job whose run it is, as its agent was configured at the claim; null: a local run, or one started by hand.';
update lakequeue.task_attempts a set job_id = g.job_id
from lakequeue.agents g
where g.id = a.agent_id and g.job_id is not null and a.run_ended_at is null;

alter table lakequeue.workers
  add column relay text check (relay in ('local', 'databricks')),
  add column dismissed boolean not null default false;
comment on column lakequeue.workers.relay is 'Where it runs agents: local or databricks; null: it does not say.';
comment on column lakequeue.workers.dismissed is 'It worked here before quiesce: what it still knows is the original''s.';

create index extraction_documents_task on lakequeue.extraction_documents (task_id) where task_id is not null;

create table lakequeue.purged_tasks (
  agent_id integer not null,
  customer text not null,
  status lakequeue.task_status not null,
  hour timestamptz not null,
  bucket smallint,
  tasks bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cached_tokens bigint not null,
  llm_cost numeric not null,
  unique nulls not distinct (agent_id, hour, customer, status, bucket)
);
comment on table lakequeue.purged_tasks is
  'What purge_tasks has deleted, in sums: rollups keep it, so they equal a count of the tasks plus this.';
comment on column lakequeue.purged_tasks.agent_id is 'The agent.';
comment on column lakequeue.purged_tasks.customer is 'The customer.';
comment on column lakequeue.purged_tasks.status is 'Their last status.';
comment on column lakequeue.purged_tasks.hour is 'Beginning of the hour of finished_at, as clocks in the reporting time zone strike.';
comment on column lakequeue.purged_tasks.bucket is 'Bucket of their response time; null: not completed.';
comment on column lakequeue.purged_tasks.tasks is 'Number of tasks.';
comment on column lakequeue.purged_tasks.input_tokens is 'Input tokens of all their attempts.';
comment on column lakequeue.purged_tasks.output_tokens is 'Output tokens of all their attempts.';
comment on column lakequeue.purged_tasks.cached_tokens is 'Cached tokens of all their attempts.';
comment on column lakequeue.purged_tasks.llm_cost is 'USD of all their attempts.';
