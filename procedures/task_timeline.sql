-- What happened to each task, in order: ordinary transitions as read from task and attempts, and the events.
create or replace view lakequeue.task_timeline as
-- What is null stands behind LATERAL: a condition on the table itself lets a planner take a partial index and read all of it.
select t.id as task_id, h.at, h.kind, null::integer as attempt_number, null::text as actor, null::text as reason, null::jsonb as detail
from lakequeue.tasks t
cross join lateral (values (t.created_at, 'enqueued'), (t.finished_at, t.status::text)) h(at, kind)
where h.at is not null
union all
select a.task_id, h.at, h.kind, a.number, a.worker, h.reason, h.detail
from lakequeue.task_attempts a
cross join lateral (
  values (a.started_at, 'claimed', null, null),
         (a.submitted_at, 'submitted', null, jsonb_build_object('run_id', a.run_id)),
         (a.ended_at, 'attempt_' || a.status, a.error,
          jsonb_strip_nulls(jsonb_build_object('error_class', a.error_class, 'run_id', a.run_id, 'trace_id', a.trace_id)))
) h(at, kind, reason, detail)
where h.at is not null
union all
select e.task_id, e.at, e.kind, (select a.number from lakequeue.task_attempts a where a.id = e.attempt_id), e.actor, e.reason, e.detail
from lakequeue.task_events e
where e.task_id is not null;

comment on view lakequeue.task_timeline is 'What happened to each task, in order.';
comment on column lakequeue.task_timeline.task_id is 'The task.';
comment on column lakequeue.task_timeline.at is 'When.';
comment on column lakequeue.task_timeline.kind is 'What: enqueued, claimed, submitted, attempt_..., a final status, or an event''s kind.';
comment on column lakequeue.task_timeline.attempt_number is 'Which attempt, if one.';
comment on column lakequeue.task_timeline.actor is 'Who: a worker, a person or a login.';
comment on column lakequeue.task_timeline.reason is 'Why: an error, or a person''s words.';
comment on column lakequeue.task_timeline.detail is 'Further facts.';
