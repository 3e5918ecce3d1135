set local role lakequeue_owner;

drop index lakequeue.tasks_finished;
create index tasks_finished on lakequeue.tasks (agent_id, status, finished_at, id)
  where finished_at is not null;

alter table lakequeue.hourly_histogram drop constraint hourly_histogram_agent_id_customer_hour_bucket_key;
delete from lakequeue.hourly_histogram h where h.agent_id = 0 or h.customer is null;
alter table lakequeue.hourly_histogram add primary key (agent_id, hour, customer, bucket);
comment on column lakequeue.hourly_histogram.agent_id is 'The agent.';
comment on column lakequeue.hourly_histogram.customer is 'The customer.';

alter table lakequeue.response_histogram drop constraint response_histogram_agent_id_customer_by_month_day_bucket_key;
delete from lakequeue.response_histogram h where h.agent_id = 0 or h.customer is null or h.by_month;
alter table lakequeue.response_histogram drop column by_month;
alter table lakequeue.response_histogram add primary key (agent_id, day, customer, bucket);
comment on table lakequeue.response_histogram is
  'Completed tasks by response time: bucket b holds times up to 1.05^b seconds, so that a percentile is right within 2.5 %.';
comment on column lakequeue.response_histogram.agent_id is 'The agent.';
comment on column lakequeue.response_histogram.customer is 'The customer.';
comment on column lakequeue.response_histogram.day is 'Day of finished_at in the reporting time zone.';
