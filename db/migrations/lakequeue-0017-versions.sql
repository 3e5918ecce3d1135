-- depends: lakequeue-0016-calls
-- Rule 16 for rows that are read all the time (db/README.md, "Held snapshots"), of which a held snapshot keeps every version.
-- Failures in a row stand in a book of their own, so that a change between failure and success leaves no version of the
-- agent's row, which every claim, call and report reads. And a run that goes on and on while others are claimed is moved once,
-- to places of its own, instead of with every 250 claims.

set local role lakequeue_owner;

-- Like the other books: each change takes the next number, so that the newest row is always the first of its index. Small, and
-- vacuumed after a fixed number of changes: a share of so few rows would be reached all the time.
create table lakequeue.breaker_books (
  agent_id integer not null,
  no bigint not null default 1,
  failures integer not null check (failures >= 0),
  primary key (agent_id, no)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table lakequeue.breaker_books is 'What the breaker has counted of an agent; without a row: nothing yet.';
comment on column lakequeue.breaker_books.agent_id is 'The agent, whose row is locked by whoever writes here.';
comment on column lakequeue.breaker_books.no is 'Rises with each change.';
comment on column lakequeue.breaker_books.failures is
  'Failures since the last success; verdicts on a document, rate limits and cancels do not count.';

insert into lakequeue.breaker_books (agent_id, failures)
select a.id, a.failures_in_a_row from lakequeue.agents a where a.failures_in_a_row > 0;
alter table lakequeue.agents drop column failures_in_a_row;

alter table lakequeue.running_books
  add column overtaken bigint not null default 0,
  add column overtaken_from bigint;
comment on column lakequeue.running_books.overtaken is 'How many attempts were moved so far: the next ones get the place that is 2^62 more.';
comment on column lakequeue.running_books.overtaken_from is
  'Where those that were moved (to 2^62 and up) and still run begin; null: none of them runs.';
comment on column lakequeue.running_books.place_from is 'No attempt with a lower place runs, of those that were not moved.';
comment on column lakequeue.task_attempts.place is
  'Where it stands in task_attempts_spending while it runs: the newest id at its claim; from 2^62 on, if many have overtaken it (_note_running).';
