set local role lakequeue_owner;

drop table lakequeue.sweep_books;

drop index lakequeue.task_attempts_raised;
create index task_attempts_raised on lakequeue.task_attempts (endpoint_id, run_ended_at) where raised is not null;

comment on table lakequeue.running_books is
  'Where what runs at an endpoint begins, so that counts pass no dead entries; without a row: anywhere.';
alter table lakequeue.running_books drop column call_from;

drop index lakequeue.model_calls_window, lakequeue.model_calls_open;
create index model_calls_window on lakequeue.model_calls (endpoint_id, ended_at) where granted_at is not null;
create index model_calls_waiting on lakequeue.model_calls (endpoint_id, priority desc, id) where granted_at is null;
alter table lakequeue.model_calls drop column place;
