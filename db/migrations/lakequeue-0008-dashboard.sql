-- depends: lakequeue-0007-copies
-- What the dashboard reads: events by what, who, which agent and when; finished tasks by the hour; how long the queue was.

set local role lakequeue_owner;

create index task_events_at on lakequeue.task_events (at, id);
create index task_events_kind on lakequeue.task_events (kind, at, id);
create index task_events_actor on lakequeue.task_events (actor, at, id);
create index task_events_agent on lakequeue.task_events (agent_id, at, id) where agent_id is not null;

alter table lakequeue.task_deltas
  add column from_hour timestamptz,
  add column to_hour timestamptz;
comment on column lakequeue.task_deltas.from_hour is 'Hour of finished_at before; null: they were live.';
comment on column lakequeue.task_deltas.to_hour is 'Hour of finished_at after; null: they are live.';

create table lakequeue.hourly_rollups (
  agent_id integer not null,
  customer text not null,
  status lakequeue.task_status not null,
  hour timestamptz not null,
  tasks bigint not null,
  primary key (agent_id, hour, status, customer)
);
comment on table lakequeue.hourly_rollups is 'Folded deltas: finished tasks per agent, customer, status and hour.';
comment on column lakequeue.hourly_rollups.agent_id is 'The agent.';
comment on column lakequeue.hourly_rollups.customer is 'The customer.';
comment on column lakequeue.hourly_rollups.status is 'A final status.';
comment on column lakequeue.hourly_rollups.hour is 'Beginning of the hour of finished_at, as clocks in the reporting time zone strike.';
comment on column lakequeue.hourly_rollups.tasks is 'Number of tasks.';

insert into lakequeue.hourly_rollups (agent_id, customer, status, hour, tasks)
select f.agent_id, f.customer, f.status, date_trunc('hour', f.at, i.time_zone), sum(f.tasks)
from (
  select t.agent_id, t.customer, t.status, t.finished_at as at, 1 as tasks from lakequeue.tasks t
  union all
  select p.agent_id, p.customer, p.status, p.hour, p.tasks from lakequeue.purged_tasks p) f
cross join lakequeue.installation i
where f.at is not null
group by 1, 2, 3, 4;

create table lakequeue.queue_samples (
  at timestamptz not null,
  agent_id integer not null,
  enqueued bigint not null,
  processing bigint not null,
  primary key (at, agent_id)
);
comment on table lakequeue.queue_samples is
  'How many tasks waited and ran, every 5 minutes while a worker lives; kept for 35 days.';
comment on column lakequeue.queue_samples.at is 'The 5 minutes in which it was counted.';
comment on column lakequeue.queue_samples.agent_id is 'The agent.';
comment on column lakequeue.queue_samples.enqueued is 'Its enqueued tasks.';
comment on column lakequeue.queue_samples.processing is 'Its tasks that were processing.';
