-- What happened to each task, in order: ordinary transitions as read from task and attempts, and the events.
create or replace view lakequeue.task_timeline as
select t.id as task_id, t.created_at as at, 'enqueued' as kind, null::integer as attempt_number, null::text as actor,
       null::text as reason, null::jsonb as detail
from lakequeue.tasks t
union all
select a.task_id, a.started_at, 'claimed', a.number, a.worker, null, null
from lakequeue.task_attempts a
union all
select a.task_id, a.submitted_at, 'submitted', a.number, a.worker, null, jsonb_build_object('run_id', a.run_id)
from lakequeue.task_attempts a
where a.submitted_at is not null
union all
select a.task_id, a.ended_at, 'attempt_' || a.status, a.number, a.worker, a.error,
       jsonb_strip_nulls(jsonb_build_object('error_class', a.error_class, 'run_id', a.run_id, 'trace_id', a.trace_id))
from lakequeue.task_attempts a
where a.ended_at is not null
union all
select t.id, t.finished_at, t.status::text, null, null, null, null
from lakequeue.tasks t
where t.finished_at is not null
union all
select e.task_id, e.at, e.kind, a.number, e.actor, e.reason, e.detail
from lakequeue.task_events e
left join lakequeue.task_attempts a on a.id = e.attempt_id
where e.task_id is not null;

comment on view lakequeue.task_timeline is 'What happened to each task, in order.';
comment on column lakequeue.task_timeline.task_id is 'The task.';
comment on column lakequeue.task_timeline.at is 'When.';
comment on column lakequeue.task_timeline.kind is 'What: enqueued, claimed, submitted, attempt_..., a final status, or an event''s kind.';
comment on column lakequeue.task_timeline.attempt_number is 'Which attempt, if one.';
comment on column lakequeue.task_timeline.actor is 'Who: a worker, a person or a login.';
comment on column lakequeue.task_timeline.reason is 'Why: an error, or a person''s words.';
comment on column lakequeue.task_timeline.detail is 'Further facts.';
