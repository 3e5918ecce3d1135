-- depends: lakequeue-0008-dashboard
-- What is known and what is not: of how many tasks tokens and cost were told, so that unknown is never read as 0; response
-- times by the hour; when a run was submitted.

set local role lakequeue_owner;

alter table lakequeue.task_attempts add column submitted_at timestamptz;
comment on column lakequeue.task_attempts.submitted_at is
  'When record_runs noted its run; null: not yet, or its own report named the run first.';

alter table lakequeue.task_deltas
  add column from_ran bigint not null default 0,
  add column from_priced bigint not null default 0,
  add column from_input_told bigint not null default 0,
  add column from_output_told bigint not null default 0,
  add column from_cached_told bigint not null default 0,
  add column from_cost_told bigint not null default 0,
  add column to_ran bigint not null default 0,
  add column to_priced bigint not null default 0,
  add column to_input_told bigint not null default 0,
  add column to_output_told bigint not null default 0,
  add column to_cached_told bigint not null default 0,
  add column to_cost_told bigint not null default 0;
alter table lakequeue.task_rollups
  add column ran bigint not null default 0,
  add column priced bigint not null default 0,
  add column input_told bigint not null default 0,
  add column output_told bigint not null default 0,
  add column cached_told bigint not null default 0,
  add column cost_told bigint not null default 0;
alter table lakequeue.purged_tasks
  add column ran bigint not null default 0,
  add column priced bigint not null default 0,
  add column input_told bigint not null default 0,
  add column output_told bigint not null default 0,
  add column cached_told bigint not null default 0,
  add column cost_told bigint not null default 0;
do $$
declare
  v_column record;
begin
  for v_column in
    select *
    from (values ('ran', 'that had an attempt'), ('priced', 'that had attempts, all of which had a cost'),
                 ('input_told', 'of which input tokens were known'), ('output_told', 'of which output tokens were known'),
                 ('cached_told', 'of which cached tokens were known'), ('cost_told', 'of which a cost was known')) c(name, words)
  loop
    execute format('comment on column lakequeue.task_deltas.from_%s is %L', v_column.name, 'How many of them, before, ' || v_column.words || '.');
    execute format('comment on column lakequeue.task_deltas.to_%s is %L', v_column.name, 'How many of them, after, ' || v_column.words || '.');
    execute format('comment on column lakequeue.task_rollups.%s is %L', v_column.name, 'Number of tasks ' || v_column.words || '.');
    execute format('comment on column lakequeue.purged_tasks.%s is %L', v_column.name, 'Number of tasks ' || v_column.words || '.');
  end loop;
end $$;

-- Nobody can look at what was purged any more: an amount that is not 0 counts as told of all of its group.
update lakequeue.purged_tasks p
set ran = case when p.status <> 'cancelled' or p.input_tokens + p.output_tokens > 0 or p.llm_cost > 0 then p.tasks else 0 end,
    priced = case when p.llm_cost > 0 then p.tasks else 0 end,
    input_told = case when p.input_tokens > 0 then p.tasks else 0 end,
    output_told = case when p.output_tokens > 0 then p.tasks else 0 end,
    cached_told = case when p.cached_tokens > 0 then p.tasks else 0 end,
    cost_told = case when p.llm_cost > 0 then p.tasks else 0 end;

-- Deltas that are not folded yet count nothing here (0 before and after), so the rollups hold all of it.
insert into lakequeue.task_rollups as r (
  agent_id, customer, status, day, tasks, input_tokens, output_tokens, cached_tokens, llm_cost,
  ran, priced, input_told, output_told, cached_told, cost_told)
select f.agent_id, f.customer, f.status, f.day, 0, 0, 0, 0, 0,
       sum(f.ran), sum(f.priced), sum(f.input_told), sum(f.output_told), sum(f.cached_told), sum(f.cost_told)
from (
  select t.agent_id, t.customer, t.status, (t.finished_at at time zone i.time_zone)::date as day, 1 as ran,
         (u.cost = u.attempts)::integer as priced, (u.input > 0)::integer as input_told, (u.output > 0)::integer as output_told,
         (u.cached > 0)::integer as cached_told, (u.cost > 0)::integer as cost_told
  from lakequeue.installation i
  cross join (
    select a.task_id, count(*) as attempts, count(a.input_tokens) as input, count(a.output_tokens) as output,
           count(a.cached_tokens) as cached, count(a.llm_cost) as cost
    from lakequeue.task_attempts a
    group by a.task_id) u
  join lakequeue.tasks t on t.id = u.task_id
  union all
  select p.agent_id, p.customer, p.status, (p.hour at time zone i.time_zone)::date, p.ran, p.priced, p.input_told, p.output_told,
         p.cached_told, p.cost_told
  from lakequeue.installation i cross join lakequeue.purged_tasks p) f
group by 1, 2, 3, 4
on conflict (agent_id, status, day, customer) do update
set ran = excluded.ran, priced = excluded.priced, input_told = excluded.input_told, output_told = excluded.output_told,
    cached_told = excluded.cached_told, cost_told = excluded.cost_told;

create table lakequeue.hourly_histogram (
  agent_id integer not null,
  customer text not null,
  hour timestamptz not null,
  bucket smallint not null,
  tasks bigint not null,
  primary key (agent_id, hour, customer, bucket)
);
comment on table lakequeue.hourly_histogram is
  'Completed tasks by hour and response time, in the buckets of response_histogram; kept for 35 days.';
comment on column lakequeue.hourly_histogram.agent_id is 'The agent.';
comment on column lakequeue.hourly_histogram.customer is 'The customer.';
comment on column lakequeue.hourly_histogram.hour is
  'Beginning of the hour of finished_at, as clocks in the reporting time zone strike.';
comment on column lakequeue.hourly_histogram.bucket is 'ceil(log 1.05 of the seconds from created_at to finished_at).';
comment on column lakequeue.hourly_histogram.tasks is 'Number of tasks.';

-- Deltas that are not folded yet will add their tasks, so these are left out here.
insert into lakequeue.hourly_histogram (agent_id, customer, hour, bucket, tasks)
select f.agent_id, f.customer, f.hour, f.bucket, sum(f.tasks)
from (
  select t.agent_id, t.customer, date_trunc('hour', t.finished_at, i.time_zone) as hour,
         ceil(ln(greatest(extract(epoch from t.finished_at - t.created_at)::double precision, 0.001))
              / ln(1.05::double precision))::smallint as bucket, 1 as tasks
  from lakequeue.installation i cross join lakequeue.tasks t
  where t.status = 'completed'
  union all
  select p.agent_id, p.customer, p.hour, p.bucket, p.tasks from lakequeue.purged_tasks p
  union all
  select d.agent_id, d.customer, d.from_hour, d.from_bucket, d.tasks from lakequeue.task_deltas d
  union all
  select d.agent_id, d.customer, d.to_hour, d.to_bucket, -d.tasks from lakequeue.task_deltas d) f
where f.bucket is not null and f.hour >= now() - interval '35 days'
group by 1, 2, 3, 4
having sum(f.tasks) <> 0;
