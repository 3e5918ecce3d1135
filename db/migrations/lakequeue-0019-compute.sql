-- depends: lakequeue-0018-lessons
-- Compute cost in the ledger (rule 15): what billing told of tasks is added up as model cost is, so that a report tells it of
-- all tasks under its filter instead of the newest ones, and reads no task for it; and of how many finished tasks there is
-- something to bill.

set local role lakequeue_owner;

alter table lakequeue.task_deltas
  add column from_billable bigint not null default 0,
  add column to_billable bigint not null default 0;
alter table lakequeue.task_rollups add column billable bigint not null default 0;
alter table lakequeue.purged_tasks add column billable bigint not null default 0;
comment on column lakequeue.task_deltas.from_billable is 'How many of them, before, were finished and had run as a Databricks job.';
comment on column lakequeue.task_deltas.to_billable is 'How many of them, after, are finished and have run as a Databricks job.';
comment on column lakequeue.task_rollups.billable is 'Number of tasks that are finished and have run as a Databricks job.';
comment on column lakequeue.purged_tasks.billable is 'Number of tasks that had run as a Databricks job.';

create table lakequeue.compute_deltas (
  id bigint generated always as identity primary key,
  agent_id integer not null,
  customer text not null,
  status lakequeue.task_status not null,
  day date,
  currency text not null,
  tasks bigint not null,
  priced bigint not null,
  list_cost numeric not null
);
comment on table lakequeue.compute_deltas is
  'Compute cost that came to, or left (negative), a group of tasks, a row per statement, group and currency, until it is folded.';
comment on column lakequeue.compute_deltas.id is 'Key.';
comment on column lakequeue.compute_deltas.agent_id is 'The agent.';
comment on column lakequeue.compute_deltas.customer is 'The customer.';
comment on column lakequeue.compute_deltas.status is 'Their status.';
comment on column lakequeue.compute_deltas.day is 'Day of finished_at in the reporting time zone; null: live tasks.';
comment on column lakequeue.compute_deltas.currency is 'Currency of list_cost.';
comment on column lakequeue.compute_deltas.tasks is 'How many more tasks (negative: fewer) have a cost in this currency.';
comment on column lakequeue.compute_deltas.priced is
  'How many more of them are finished and billed in full: each of their runs, and every amount has a price.';
comment on column lakequeue.compute_deltas.list_cost is 'How much more they cost, at list price.';

create table lakequeue.compute_rollups (
  agent_id integer not null,
  customer text not null,
  status lakequeue.task_status not null,
  day date,
  currency text not null,
  tasks bigint not null,
  priced bigint not null,
  list_cost numeric not null,
  unique nulls not distinct (agent_id, status, day, customer, currency)
);
comment on table lakequeue.compute_rollups is 'Folded compute_deltas: compute cost per agent, customer, status, day and currency.';
comment on column lakequeue.compute_rollups.agent_id is 'The agent.';
comment on column lakequeue.compute_rollups.customer is 'The customer.';
comment on column lakequeue.compute_rollups.status is 'The status.';
comment on column lakequeue.compute_rollups.day is 'Day of finished_at in the reporting time zone; null: live tasks.';
comment on column lakequeue.compute_rollups.currency is 'Currency of list_cost.';
comment on column lakequeue.compute_rollups.tasks is 'Number of tasks with a cost in this currency.';
comment on column lakequeue.compute_rollups.priced is 'How many of them are finished and billed in full.';
comment on column lakequeue.compute_rollups.list_cost is 'What they cost at list price.';

create table lakequeue.purged_compute (
  agent_id integer not null,
  customer text not null,
  status lakequeue.task_status not null,
  day date not null,
  currency text not null,
  tasks bigint not null,
  priced bigint not null,
  list_cost numeric not null,
  primary key (agent_id, status, day, customer, currency)
);
comment on table lakequeue.purged_compute is
  'What compute_rollups say of tasks that purge_tasks has deleted, from migration 0019 on: it can be counted no more.';
comment on column lakequeue.purged_compute.agent_id is 'The agent.';
comment on column lakequeue.purged_compute.customer is 'The customer.';
comment on column lakequeue.purged_compute.status is 'The status.';
comment on column lakequeue.purged_compute.day is 'Day of finished_at in the reporting time zone.';
comment on column lakequeue.purged_compute.currency is 'Currency of list_cost.';
comment on column lakequeue.purged_compute.tasks is 'Number of tasks with a cost in this currency.';
comment on column lakequeue.purged_compute.priced is 'How many of them are billed in full.';
comment on column lakequeue.purged_compute.list_cost is 'What they cost at list price.';

-- Deltas that are not folded yet count nothing here (0 before and after), so the rollups hold all of it. What was purged
-- is not known to have run as a job.
insert into lakequeue.task_rollups as r (
  agent_id, customer, status, day, tasks, input_tokens, output_tokens, cached_tokens, llm_cost,
  ran, priced, input_told, output_told, cached_told, cost_told, billable)
select t.agent_id, t.customer, t.status, (t.finished_at at time zone i.time_zone)::date, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, count(*)
from lakequeue.installation i
cross join (
  select distinct a.task_id from lakequeue.task_attempts a where a.run_id is not null and a.job_id is not null) u
join lakequeue.tasks t on t.id = u.task_id
where t.finished_at is not null
group by 1, 2, 3, 4
on conflict (agent_id, status, day, customer) do update set billable = excluded.billable;

insert into lakequeue.compute_rollups (agent_id, customer, status, day, currency, tasks, priced, list_cost)
select t.agent_id, t.customer, t.status, (t.finished_at at time zone i.time_zone)::date, c.currency, count(*),
       count(*) filter (where t.finished_at is not null and r.billed = u.runs and not c.unpriced), sum(c.cost)
from lakequeue.installation i
cross join (
  select o.task_id, o.currency, sum(o.list_cost) as cost,
         bool_or(bool_or(o.currency is null)) over (partition by o.task_id) as unpriced
  from lakequeue.compute_costs o
  group by o.task_id, o.currency) c
join (
  select b.task_id, count(*) filter (where b.billed) as billed
  from lakequeue.compute_runs b
  group by b.task_id) r on r.task_id = c.task_id
join (
  select a.task_id, count(*) as runs
  from lakequeue.task_attempts a
  where a.run_id is not null and a.job_id is not null
  group by a.task_id) u on u.task_id = c.task_id
join lakequeue.tasks t on t.id = c.task_id
where c.currency is not null
group by 1, 2, 3, 4, 5;
