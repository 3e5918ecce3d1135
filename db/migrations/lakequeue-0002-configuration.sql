-- depends: lakequeue-0001-roles
-- What is configured rather than queued: the installation, endpoints, agents, prices, people.

set local role lakequeue_owner;

create table lakequeue.installation (
  only_row boolean primary key default true check (only_row),
  id uuid not null default gen_random_uuid(),
  secret bytea not null default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
    check (octet_length(secret) >= 32),
  time_zone text not null default 'UTC',
  schema_version integer not null default 0
);
comment on table lakequeue.installation is 'One row: what makes this installation itself. A copy that must not act as it gets another id and secret.';
comment on column lakequeue.installation.only_row is 'Always true: there is one row.';
comment on column lakequeue.installation.id is 'Identity of the installation: tells a copy from the original.';
comment on column lakequeue.installation.secret is 'Callback tokens are derived from it; nobody but the owner reads it.';
comment on column lakequeue.installation.time_zone is 'The one reporting time zone: a finished task belongs to the day of finished_at in it.';
comment on column lakequeue.installation.schema_version is 'Number of the newest migration; set by lakequeue migrate.';

insert into lakequeue.installation default values;

create table lakequeue.model_endpoints (
  id integer generated always as identity primary key,
  name text not null unique check (name <> '' and length(name) <= 200),
  max_concurrent_tasks integer check (max_concurrent_tasks > 0),
  max_tpm bigint check (max_tpm > 0),
  cooldown_until timestamptz
);
comment on table lakequeue.model_endpoints is
  'Where a budget really is. The advisory lock on its id is the one throttle lock; agents that share an endpoint share its limits.';
comment on column lakequeue.model_endpoints.id is 'Integer, since the two-key advisory lock takes one.';
comment on column lakequeue.model_endpoints.name is 'Name of the serving endpoint; an agent''s own endpoint has the agent''s name.';
comment on column lakequeue.model_endpoints.max_concurrent_tasks is 'Attempts that may spend at once; null: no limit.';
comment on column lakequeue.model_endpoints.max_tpm is 'Tokens per minute that no 60-second window may exceed; null: no limit.';
comment on column lakequeue.model_endpoints.cooldown_until is 'Nothing is claimed before this time: an agent met a 429.';

create table lakequeue.agents (
  id integer generated always as identity primary key,
  name text not null unique check (name <> '' and length(name) <= 200),
  job_id bigint,
  model_endpoint_id integer not null references lakequeue.model_endpoints,
  former_endpoint_ids integer[] not null default '{}',
  max_concurrent_tasks integer check (max_concurrent_tasks > 0),
  max_tpm bigint check (max_tpm > 0),
  lease_duration interval not null default '5 minutes' check (lease_duration between '1 second' and '1 day'),
  reconcile_grace interval not null default '5 minutes' check (reconcile_grace between '0' and '7 days'),
  max_attempts integer not null default 3 check (max_attempts between 1 and 100),
  max_rate_limited integer not null default 20 check (max_rate_limited between 0 and 1000),
  retry_base interval not null default '10 seconds' check (retry_base between '0' and '1 day'),
  retry_cap interval not null default '10 minutes' check (retry_cap between '0' and '7 days'),
  tokens_per_task integer not null default 1000 check (tokens_per_task >= 0),
  tokens_per_page integer not null default 2000 check (tokens_per_page >= 0),
  parameters jsonb not null default '{}' check (jsonb_typeof(parameters) = 'object'),
  paused_at timestamptz,
  paused_by text,
  pause_reason text,
  check ((paused_at is null) = (paused_by is null))
);
create index agents_endpoint on lakequeue.agents (model_endpoint_id);
comment on table lakequeue.agents is 'A kind of work: one Databricks job, one throttle, one retry policy.';
comment on column lakequeue.agents.id is 'Key.';
comment on column lakequeue.agents.name is 'The name that callers use.';
comment on column lakequeue.agents.job_id is 'Databricks job to run; null where a local relay runs the agent.';
comment on column lakequeue.agents.model_endpoint_id is 'The endpoint whose budget it spends.';
comment on column lakequeue.agents.former_endpoint_ids is
  'Endpoints it has moved away from: attempts claimed there still count against the agent''s own limits.';
comment on column lakequeue.agents.max_concurrent_tasks is 'Attempts of this agent that may spend at once; null: no limit.';
comment on column lakequeue.agents.max_tpm is 'Tokens per minute of this agent; null: no limit. Both limits set: the stricter one wins.';
comment on column lakequeue.agents.lease_duration is 'How long an attempt owns its task without a heartbeat.';
comment on column lakequeue.agents.reconcile_grace is
  'How long after the end of its lease a run counts as possibly alive; 0 where no run can outlive its worker.';
comment on column lakequeue.agents.max_attempts is 'A task fails for good at this many failures.';
comment on column lakequeue.agents.max_rate_limited is 'A task fails for good when it was given back for a rate limit more often than this.';
comment on column lakequeue.agents.retry_base is 'First wait before a retry; doubled for each further one, with jitter.';
comment on column lakequeue.agents.retry_cap is 'Longest wait before a retry.';
comment on column lakequeue.agents.tokens_per_task is 'Estimate: tokens of a task beyond its pages.';
comment on column lakequeue.agents.tokens_per_page is 'Estimate: tokens of a page, prompt and answer.';
comment on column lakequeue.agents.parameters is 'Handed to every run as it is: model name and the like.';
comment on column lakequeue.agents.paused_at is 'Since when nothing is claimed; null: not paused.';
comment on column lakequeue.agents.paused_by is 'Who paused it.';
comment on column lakequeue.agents.pause_reason is 'Why it was paused.';

create table lakequeue.model_prices (
  model text not null check (model <> ''),
  valid_from timestamptz not null,
  input_usd numeric not null check (input_usd >= 0 and input_usd < 1e6),
  cached_usd numeric not null check (cached_usd >= 0 and cached_usd < 1e6),
  output_usd numeric not null check (output_usd >= 0 and output_usd < 1e6),
  primary key (model, valid_from)
);
comment on table lakequeue.model_prices is 'What a model costs, in USD per million tokens, from a point in time on.';
comment on column lakequeue.model_prices.model is 'Model name as agents report it.';
comment on column lakequeue.model_prices.valid_from is 'From when this price applies, until the next one.';
comment on column lakequeue.model_prices.input_usd is 'USD per million input tokens that were not cached.';
comment on column lakequeue.model_prices.cached_usd is 'USD per million input tokens read from the provider''s cache.';
comment on column lakequeue.model_prices.output_usd is 'USD per million output tokens.';

create table lakequeue.people (
  identity text primary key check (identity <> ''),
  role text not null check (role in ('viewer', 'operator'))
);
comment on table lakequeue.people is 'Who may act through the web process; database logins are governed by grants instead.';
comment on column lakequeue.people.identity is 'The person as the web process names them, an e-mail address as a rule.';
comment on column lakequeue.people.role is 'operator: may act; viewer: is known, and may not.';
