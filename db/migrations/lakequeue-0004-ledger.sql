-- depends: lakequeue-0003-queue
-- What people read without scanning history: append-only deltas written with every change, folded into rollups
-- later. A reader adds rollups and unfolded deltas in one statement, so the sum is exact at every instant.

set local role lakequeue_owner;

create table lakequeue.task_deltas (
  id bigint generated always as identity primary key,
  agent_id integer not null,
  customer text not null,
  tasks bigint not null,
  from_status lakequeue.task_status,
  from_day date,
  from_bucket smallint,
  from_input_tokens bigint not null default 0,
  from_output_tokens bigint not null default 0,
  from_cached_tokens bigint not null default 0,
  from_llm_cost numeric not null default 0,
  to_status lakequeue.task_status not null,
  to_day date,
  to_bucket smallint,
  to_input_tokens bigint not null default 0,
  to_output_tokens bigint not null default 0,
  to_cached_tokens bigint not null default 0,
  to_llm_cost numeric not null default 0
);
comment on table lakequeue.task_deltas is
  'Append-only: so many tasks moved from one group (status, day) to another, with the usage they carried before and carry after.';
comment on column lakequeue.task_deltas.id is 'Key; the newest one tells whether anything changed.';
comment on column lakequeue.task_deltas.agent_id is 'The agent.';
comment on column lakequeue.task_deltas.customer is 'The customer.';
comment on column lakequeue.task_deltas.tasks is 'How many tasks moved.';
comment on column lakequeue.task_deltas.from_status is 'Status before; null: they are new.';
comment on column lakequeue.task_deltas.from_day is 'Day of finished_at before; null: they were live.';
comment on column lakequeue.task_deltas.from_bucket is 'Bucket of their response time before; null: none.';
comment on column lakequeue.task_deltas.from_input_tokens is 'Input tokens that they carried before.';
comment on column lakequeue.task_deltas.from_output_tokens is 'Output tokens that they carried before.';
comment on column lakequeue.task_deltas.from_cached_tokens is 'Cached tokens that they carried before.';
comment on column lakequeue.task_deltas.from_llm_cost is 'USD that they carried before.';
comment on column lakequeue.task_deltas.to_status is 'Status after.';
comment on column lakequeue.task_deltas.to_day is 'Day of finished_at after; null: they are live.';
comment on column lakequeue.task_deltas.to_bucket is 'Bucket of their response time after; null: none.';
comment on column lakequeue.task_deltas.to_input_tokens is 'Input tokens that they carry after.';
comment on column lakequeue.task_deltas.to_output_tokens is 'Output tokens that they carry after.';
comment on column lakequeue.task_deltas.to_cached_tokens is 'Cached tokens that they carry after.';
comment on column lakequeue.task_deltas.to_llm_cost is 'USD that they carry after.';

create table lakequeue.task_rollups (
  agent_id integer not null,
  customer text not null,
  status lakequeue.task_status not null,
  day date,
  tasks bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cached_tokens bigint not null,
  llm_cost numeric not null,
  unique nulls not distinct (agent_id, status, day, customer)
);
comment on table lakequeue.task_rollups is 'Folded deltas: tasks and usage per agent, customer, status and day.';
comment on column lakequeue.task_rollups.agent_id is 'The agent.';
comment on column lakequeue.task_rollups.customer is 'The customer.';
comment on column lakequeue.task_rollups.status is 'The status.';
comment on column lakequeue.task_rollups.day is 'Day of finished_at in the reporting time zone; null: live tasks.';
comment on column lakequeue.task_rollups.tasks is 'Number of tasks.';
comment on column lakequeue.task_rollups.input_tokens is 'Input tokens of all their attempts.';
comment on column lakequeue.task_rollups.output_tokens is 'Output tokens of all their attempts.';
comment on column lakequeue.task_rollups.cached_tokens is 'Cached tokens of all their attempts.';
comment on column lakequeue.task_rollups.llm_cost is 'USD of all their attempts.';

create table lakequeue.response_histogram (
  agent_id integer not null,
  customer text not null,
  day date not null,
  bucket smallint not null,
  tasks bigint not null,
  primary key (agent_id, day, customer, bucket)
);
comment on table lakequeue.response_histogram is
  'Completed tasks by response time: bucket b holds times up to 1.05^b seconds, so that a percentile is right within 2.5 %.';
comment on column lakequeue.response_histogram.agent_id is 'The agent.';
comment on column lakequeue.response_histogram.customer is 'The customer.';
comment on column lakequeue.response_histogram.day is 'Day of finished_at in the reporting time zone.';
comment on column lakequeue.response_histogram.bucket is 'ceil(log 1.05 of the seconds from created_at to finished_at).';
comment on column lakequeue.response_histogram.tasks is 'Number of tasks.';

create table lakequeue.compute_costs (
  run_id bigint not null,
  sku text not null,
  day date not null,
  quantity numeric not null check (quantity >= 0 and quantity < 1e12),
  list_cost numeric check (list_cost >= 0 and list_cost < 1e12),
  currency text not null default 'USD',
  fetched_at timestamptz not null,
  settled boolean not null default false,
  primary key (run_id, sku, day)
);
comment on table lakequeue.compute_costs is 'Compute of the job runs that this installation submitted, from system.billing.usage.';
comment on column lakequeue.compute_costs.run_id is 'The job run; bind it as text in billing queries.';
comment on column lakequeue.compute_costs.sku is 'What was used.';
comment on column lakequeue.compute_costs.day is 'Usage day.';
comment on column lakequeue.compute_costs.quantity is 'Amount used, in the SKU''s unit (DBU as a rule).';
comment on column lakequeue.compute_costs.list_cost is 'At list price; null: no price known.';
comment on column lakequeue.compute_costs.currency is 'Currency of list_cost.';
comment on column lakequeue.compute_costs.fetched_at is 'When billing was asked.';
comment on column lakequeue.compute_costs.settled is 'Billing will not change it any more.';
