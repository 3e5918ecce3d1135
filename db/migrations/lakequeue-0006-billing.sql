-- depends: lakequeue-0005-throttle
-- What the cloud bills: compute of the job runs that this installation submitted, and model cost per endpoint, as
-- system.billing said it on a person's asking. The table of the ledger that nothing filled is made anew: the key of a
-- run here is its attempt (run ids are unique within one workspace only), and what was asked is kept apart from what
-- was found, so that "not billed yet" is not 0.

set local role lakequeue_owner;

drop table lakequeue.compute_costs;

create table lakequeue.compute_fetches (
  id bigint generated always as identity primary key,
  state text not null default 'running' check (state in ('running', 'done', 'failed', 'cancelled')),
  phase text not null default 'starting' check (phase in ('starting', 'waiting', 'running', 'reading')),
  asked_by text not null check (asked_by <> '' and length(asked_by) <= 320),
  usage_from date not null,
  usage_to date not null,
  endpoints text[] not null,
  runs integer not null check (runs >= 0),
  more boolean not null,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  ended_at timestamptz,
  workspace_id text check (length(workspace_id) <= 200),
  statement_id text check (length(statement_id) <= 200),
  cancel_requested_at timestamptz,
  cancelled_by text,
  billed integer check (billed >= 0),
  ignored integer check (ignored >= 0),
  problem text check (length(problem) <= 4000),
  constraint ended_unless_running check ((state = 'running') = (ended_at is null)),
  constraint counted_when_done check ((state = 'done') = (billed is not null and ignored is not null))
);
create unique index compute_fetches_running on lakequeue.compute_fetches (state) where state = 'running';
create index compute_fetches_done on lakequeue.compute_fetches (id) where state = 'done';
comment on table lakequeue.compute_fetches is 'Each time that somebody asked billing for costs; one runs at a time.';
comment on column lakequeue.compute_fetches.id is 'Key.';
comment on column lakequeue.compute_fetches.state is 'running, done, failed or cancelled.';
comment on column lakequeue.compute_fetches.phase is
  'How far: starting, waiting (for the warehouse), running (the query), reading (its answer).';
comment on column lakequeue.compute_fetches.asked_by is 'Who asked.';
comment on column lakequeue.compute_fetches.usage_from is 'First day of usage asked for, in UTC as billing has it.';
comment on column lakequeue.compute_fetches.usage_to is 'Last day of usage asked for.';
comment on column lakequeue.compute_fetches.endpoints is 'The model endpoints asked for.';
comment on column lakequeue.compute_fetches.runs is 'How many runs were asked for.';
comment on column lakequeue.compute_fetches.more is 'Further runs wait to be asked for.';
comment on column lakequeue.compute_fetches.started_at is 'When it was asked.';
comment on column lakequeue.compute_fetches.seen_at is 'When the process that asks last said so; one silent for a minute is lost.';
comment on column lakequeue.compute_fetches.ended_at is 'When it ended; null while it runs.';
comment on column lakequeue.compute_fetches.workspace_id is 'The workspace whose usage it was.';
comment on column lakequeue.compute_fetches.statement_id is 'The statement at the warehouse.';
comment on column lakequeue.compute_fetches.cancel_requested_at is 'Somebody asked to stop it.';
comment on column lakequeue.compute_fetches.cancelled_by is 'Who.';
comment on column lakequeue.compute_fetches.billed is 'How many of its runs billing knew.';
comment on column lakequeue.compute_fetches.ignored is 'Rows of the answer that were not asked for.';
comment on column lakequeue.compute_fetches.problem is 'Why it failed, in words.';

create table lakequeue.compute_runs (
  attempt_id bigint primary key,
  task_id bigint not null,
  run_id bigint not null,
  fetch_id bigint not null,
  asked_at timestamptz,
  billed boolean not null default false,
  settled boolean not null default false
);
create index compute_runs_task on lakequeue.compute_runs (task_id);
create index compute_runs_fetch on lakequeue.compute_runs (fetch_id, run_id);
comment on table lakequeue.compute_runs is 'The job runs that billing was asked for.';
comment on column lakequeue.compute_runs.attempt_id is 'The attempt.';
comment on column lakequeue.compute_runs.task_id is 'Its task.';
comment on column lakequeue.compute_runs.run_id is 'Its run; bound as text in billing queries.';
comment on column lakequeue.compute_runs.fetch_id is 'The newest fetch that asked for it.';
comment on column lakequeue.compute_runs.asked_at is 'When billing last answered; null: not yet.';
comment on column lakequeue.compute_runs.billed is 'Billing knows it; false: not billed yet, which is not 0.';
comment on column lakequeue.compute_runs.settled is 'Billing will not change it any more: it is not asked for again.';

create table lakequeue.compute_costs (
  attempt_id bigint not null,
  task_id bigint not null,
  sku text not null check (sku <> '' and length(sku) <= 500),
  unit text not null check (length(unit) <= 100),
  day date not null,
  currency text check (currency <> '' and length(currency) <= 20),
  quantity numeric not null check (quantity > -1e12 and quantity < 1e12),
  list_cost numeric check (list_cost > -1e12 and list_cost < 1e12),
  unique nulls not distinct (attempt_id, sku, unit, day, currency),
  constraint cost_has_currency check ((currency is null) = (list_cost is null))
);
create index compute_costs_task on lakequeue.compute_costs (task_id);
comment on table lakequeue.compute_costs is
  'Compute of job runs: the sum of all billing records of a run, SKU, day and currency, retractions included.';
comment on column lakequeue.compute_costs.attempt_id is 'The attempt whose run it was.';
comment on column lakequeue.compute_costs.task_id is 'Its task.';
comment on column lakequeue.compute_costs.sku is 'What was used.';
comment on column lakequeue.compute_costs.unit is 'Unit of quantity: DBU as a rule.';
comment on column lakequeue.compute_costs.day is 'Day of usage, in UTC as billing has it.';
comment on column lakequeue.compute_costs.currency is 'Currency of list_cost, never added to another one; null: no price known.';
comment on column lakequeue.compute_costs.quantity is 'Amount used.';
comment on column lakequeue.compute_costs.list_cost is 'At list price, not what an invoice says; null: no price known.';

create table lakequeue.endpoint_costs (
  endpoint text not null,
  sku text not null check (sku <> '' and length(sku) <= 500),
  unit text not null check (length(unit) <= 100),
  day date not null,
  currency text check (currency <> '' and length(currency) <= 20),
  quantity numeric not null check (quantity > -1e12 and quantity < 1e12),
  list_cost numeric check (list_cost > -1e12 and list_cost < 1e12),
  fetched_at timestamptz not null,
  unique nulls not distinct (endpoint, day, sku, unit, currency),
  constraint cost_has_currency check ((currency is null) = (list_cost is null))
);
comment on table lakequeue.endpoint_costs is
  'Model cost as billed per serving endpoint and day: of all who call the endpoint, since billing knows no run here.';
comment on column lakequeue.endpoint_costs.endpoint is 'The serving endpoint''s name.';
comment on column lakequeue.endpoint_costs.sku is 'What was used.';
comment on column lakequeue.endpoint_costs.unit is 'Unit of quantity.';
comment on column lakequeue.endpoint_costs.day is 'Day of usage, in UTC as billing has it.';
comment on column lakequeue.endpoint_costs.currency is 'Currency of list_cost; null: no price known.';
comment on column lakequeue.endpoint_costs.quantity is 'Amount used.';
comment on column lakequeue.endpoint_costs.list_cost is 'At list price; null: no price known.';
comment on column lakequeue.endpoint_costs.fetched_at is 'When billing said so.';
