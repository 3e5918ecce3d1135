-- depends: lakequeue-0009-coverage
-- What health and metrics read: when upkeep was last done, and totals that only grow.

set local role lakequeue_owner;

create table lakequeue.upkeep (
  kind text primary key check (kind in ('sweep', 'fold')),
  done_at timestamptz
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table lakequeue.upkeep is 'When the workers'' upkeep was last done, to half a minute.';
comment on column lakequeue.upkeep.kind is 'sweep: a sweep came to its end; fold: all deltas that there were had been folded.';
comment on column lakequeue.upkeep.done_at is 'When; null: never.';
insert into lakequeue.upkeep (kind) values ('sweep'), ('fold');

create table lakequeue.running_totals (
  agent_id integer primary key,
  completed bigint not null,
  failed bigint not null,
  cancelled bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cached_tokens bigint not null,
  llm_cost numeric not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table lakequeue.running_totals is
  'Folded deltas once more, as counters that never fall: a task that is retried and fails again has failed twice.';
comment on column lakequeue.running_totals.agent_id is 'The agent.';
comment on column lakequeue.running_totals.completed is 'How often a task of it became completed, since migration 0010.';
comment on column lakequeue.running_totals.failed is 'How often one became failed.';
comment on column lakequeue.running_totals.cancelled is 'How often one became cancelled.';
comment on column lakequeue.running_totals.input_tokens is 'Input tokens that were reported; a correction downwards counts nothing.';
comment on column lakequeue.running_totals.output_tokens is 'Output tokens, likewise.';
comment on column lakequeue.running_totals.cached_tokens is 'Cached tokens, likewise.';
comment on column lakequeue.running_totals.llm_cost is 'USD, likewise.';
