-- depends: lakequeue-0017-versions
-- Rule 16 for what is left of rows that are read all the time (db/README.md, "Held snapshots"). What people read of an agent's
-- lessons, and when it last learnt, stand in a book of their own: they change once a minute, and each change left a version of
-- the agent's row, which every claim, call and count reads. And a model call that stays open while others pass it is moved
-- once, to places of its own, as an attempt is, instead of with every 250 calls.

set local role lakequeue_owner;

-- Like the other books: each change takes the next number, so that the newest row is always the first of its index. Small, and
-- vacuumed after a fixed number of changes: a share of so few rows would be reached all the time.
create table lakequeue.learning_books (
  agent_id integer not null,
  no bigint not null default 1,
  learnt_at timestamptz not null,
  learnt_from integer not null,
  estimate_error_p50 real,
  estimate_error_p95 real,
  primary key (agent_id, no)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table lakequeue.learning_books is 'When an agent last learnt, and how right its estimates were then; without a row: never.';
comment on column lakequeue.learning_books.agent_id is 'The agent, whose row is locked by whoever writes here.';
comment on column lakequeue.learning_books.no is 'Rises with each change.';
comment on column lakequeue.learning_books.learnt_at is 'When it last learnt.';
comment on column lakequeue.learning_books.learnt_from is
  'How many completed tasks with complete usage it looked at; below 20 it learns nothing from them.';
comment on column lakequeue.learning_books.estimate_error_p50 is 'Used over estimated, minus 1, of its last tasks: the median.';
comment on column lakequeue.learning_books.estimate_error_p95 is 'Used over estimated, minus 1, of its last tasks: the 95th percentile.';

insert into lakequeue.learning_books (agent_id, learnt_at, learnt_from, estimate_error_p50, estimate_error_p95)
select a.id, a.learnt_at, a.learnt_from, a.estimate_error_p50, a.estimate_error_p95
from lakequeue.agents a
where a.learnt_at is not null;
alter table lakequeue.agents
  drop column learnt_at, drop column learnt_from, drop column estimate_error_p50, drop column estimate_error_p95;

alter table lakequeue.running_books
  add column calls_overtaken bigint not null default 0,
  add column calls_overtaken_from bigint;
comment on column lakequeue.running_books.calls_overtaken is 'How many calls were moved so far: the next get the place 2^62 + this.';
comment on column lakequeue.running_books.calls_overtaken_from is
  'Where those that were moved (to 2^62 and up) and are still open begin; null: none of them is.';
comment on column lakequeue.running_books.call_from is 'No call with a lower place is open, of those that were not moved.';
comment on column lakequeue.model_calls.place is
  'Where it stands in model_calls_open until it ends: the newest id when it was asked for; from 2^62 on, if many overtook it (_note_calls).';
