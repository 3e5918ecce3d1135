-- depends: lakequeue-0014-deltas
-- Reads over long ranges: response times of all agents, of all customers and of whole months stand beside those of an agent,
-- a customer and a day; the index of finished tasks knows the customer, so that a list of one reads no task of the others.

set local role lakequeue_owner;

-- A fold by the functions of before, which would leave the new rows out, fails: its ON CONFLICT fits no constraint.
alter table lakequeue.response_histogram drop constraint response_histogram_pkey;
alter table lakequeue.response_histogram alter column customer drop not null;
alter table lakequeue.response_histogram add column by_month boolean not null default false;
alter table lakequeue.response_histogram alter column by_month drop default;
-- Deltas that are not folded yet will add their tasks.
insert into lakequeue.response_histogram (agent_id, customer, by_month, day, bucket, tasks)
select h.agent_id, h.customer, true, date_trunc('month', h.day::timestamp)::date, h.bucket, sum(h.tasks)
from lakequeue.response_histogram h
group by h.agent_id, h.customer, date_trunc('month', h.day::timestamp), h.bucket;
insert into lakequeue.response_histogram (agent_id, customer, by_month, day, bucket, tasks)
select coalesce(h.agent_id, 0), h.customer, h.by_month, h.day, h.bucket, sum(h.tasks)
from lakequeue.response_histogram h
group by h.by_month, h.day, h.bucket, grouping sets ((h.agent_id), (h.customer), ());
alter table lakequeue.response_histogram add unique nulls not distinct (agent_id, customer, by_month, day, bucket);
comment on table lakequeue.response_histogram is
  'Completed tasks by response time, by day and by month: bucket b holds times up to 1.05^b seconds, so that a percentile is right within 2.5 %.';
comment on column lakequeue.response_histogram.agent_id is 'The agent; 0: all of them together.';
comment on column lakequeue.response_histogram.customer is 'The customer; null: all of them together.';
comment on column lakequeue.response_histogram.by_month is 'A whole month, which begins on day.';
comment on column lakequeue.response_histogram.day is 'Day of finished_at in the reporting time zone, or the first of its month.';

alter table lakequeue.hourly_histogram drop constraint hourly_histogram_pkey;
alter table lakequeue.hourly_histogram alter column customer drop not null;
insert into lakequeue.hourly_histogram (agent_id, customer, hour, bucket, tasks)
select coalesce(h.agent_id, 0), h.customer, h.hour, h.bucket, sum(h.tasks)
from lakequeue.hourly_histogram h
group by h.hour, h.bucket, grouping sets ((h.agent_id), (h.customer), ());
alter table lakequeue.hourly_histogram add unique nulls not distinct (agent_id, customer, hour, bucket);
comment on column lakequeue.hourly_histogram.agent_id is 'The agent; 0: all of them together.';
comment on column lakequeue.hourly_histogram.customer is 'The customer; null: all of them together.';

drop index lakequeue.tasks_finished;
create index tasks_finished on lakequeue.tasks (agent_id, status, finished_at, id, customer)
  where finished_at is not null;
