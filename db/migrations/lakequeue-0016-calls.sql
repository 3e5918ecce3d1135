-- depends: lakequeue-0015-histograms
-- Rule 16 for what agents do at each model call, and for the sweep (db/README.md, "Held snapshots"): open calls are read from a
-- place on, due retries and calls to forget from a time on, and what reports have raised from where what runs begins.
--
-- Builds three indexes anew, over a few minutes of calls and the attempts that used more than they should.

set local role lakequeue_owner;

-- An open call stands where it was asked for until somebody moves it; a grant changes no indexed column.
alter table lakequeue.model_calls add column place bigint not null default 0;
alter table lakequeue.model_calls
  alter column place set default coalesce(pg_sequence_last_value('lakequeue.model_calls_id_seq'), 0);
comment on column lakequeue.model_calls.place is
  'Where it stands in model_calls_open until it ends: the newest id when it was asked for, or when it was last moved (_note_calls).';
drop index lakequeue.model_calls_waiting, lakequeue.model_calls_window;
create index model_calls_open on lakequeue.model_calls (endpoint_id, place) where ended_at is null;
create index model_calls_window on lakequeue.model_calls (endpoint_id, ended_at) where ended_at is not null;

alter table lakequeue.running_books add column call_from bigint not null default 0;
comment on table lakequeue.running_books is
  'Where what runs at an endpoint, and its open calls, begin, so that counts pass no dead entries; without a row: anywhere.';
comment on column lakequeue.running_books.call_from is 'No call with a lower place is open.';

drop index lakequeue.task_attempts_raised;
create index task_attempts_raised on lakequeue.task_attempts (endpoint_id, run_ended_at, place) where raised is not null;

-- Like the other books: each change takes the next number, so that the newest row is always the first of its index.
create table lakequeue.sweep_books (
  no bigint not null default 1 primary key,
  retries_from timestamptz not null default '-infinity',
  calls_from timestamptz not null default '-infinity',
  looked_at timestamptz not null default '-infinity'
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table lakequeue.sweep_books is
  'One row: from which times on a sweep looks, so that it passes little of what it has done; without it: at everything.';
comment on column lakequeue.sweep_books.no is 'Rises with each change.';
comment on column lakequeue.sweep_books.retries_from is 'Retries that were due before are done, but for what was committed very late.';
comment on column lakequeue.sweep_books.calls_from is 'Model calls that ended before are forgotten, but for what was committed very late.';
comment on column lakequeue.sweep_books.looked_at is 'When a sweep last looked at everything.';
