-- depends: lakequeue-0016-calls
-- Rule 16 for agents (db/README.md, "Held snapshots"): failures in a row stand in a book of their own, so that changing between
-- failure and success leaves no version of the agent's row, which every claim, call and report reads.

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
