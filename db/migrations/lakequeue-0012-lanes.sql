-- depends: lakequeue-0011-roles
-- Rule 16: claims and the throttle's count stay away from dead entries, however long somebody holds a snapshot. Lanes
-- (db/README.md, "Held snapshots") for what may be claimed, and a place from which what runs is read.
--
-- Builds two indexes anew, in one transaction: some seconds per million tasks, during which tasks are locked.

set local role lakequeue_owner;

alter table lakequeue.tasks add column lane integer not null default 0;
comment on column lakequeue.tasks.lane is
  'Where it waits in tasks_claimable: 0 as it was enqueued; else the lane to which it came back (see claim_books).';
drop index lakequeue.tasks_claimable;
create index tasks_claimable on lakequeue.tasks (agent_id, lane, priority desc, created_at, id)
  where status = 'enqueued' and retry_at is null;

-- Like the throttle's books: each change takes the next number, so that the newest row is always the first of its index.
create table lakequeue.claim_books (
  agent_id integer not null,
  no bigint not null default 1,
  lane integer not null default 1,
  lanes integer[] not null default '{-1,0,1}',
  highest integer[] not null default '{9,9,9}',
  lowest integer[] not null default '{0,0,0}',
  created_from timestamptz[] not null default '{null,null,null}',
  id_from bigint[] not null default '{null,null,null}',
  noted_at timestamptz,
  noted_in xid8,
  holders text[],
  moved_no bigint not null default 0,
  primary key (agent_id, no)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table lakequeue.claim_books is
  'Where the claimable tasks of an agent begin, so that claims pass no dead entries; without a row: anywhere.';
comment on column lakequeue.claim_books.agent_id is 'The agent.';
comment on column lakequeue.claim_books.no is 'Rises with each change.';
comment on column lakequeue.claim_books.lane is 'The lane to which tasks come back now.';
comment on column lakequeue.claim_books.lanes is
  'Stretches of tasks_claimable, the lane of each (-1: transactions that cannot know the current one): outside of them nothing is claimable.';
comment on column lakequeue.claim_books.highest is 'The highest priority of each stretch.';
comment on column lakequeue.claim_books.lowest is 'The lowest priority of each stretch; one that begins later than its lane is of one priority.';
comment on column lakequeue.claim_books.created_from is 'The created_at at which each stretch begins; null: wherever its lane does.';
comment on column lakequeue.claim_books.id_from is 'The id at which it begins, among tasks of that created_at.';
comment on column lakequeue.claim_books.noted_at is
  'What was enqueued up to then may be passed once its transaction has ended; what is enqueued as of then or earlier goes to a lane.';
comment on column lakequeue.claim_books.noted_in is 'The transaction that noted it.';
comment on column lakequeue.claim_books.holders is
  'Who could still commit to lane 0 as of noted_at or to a former lane: the writers of tasks once the note was committed; null: not looked yet.';
comment on column lakequeue.claim_books.moved_no is 'The number at which what was left in a former lane was last moved, or nothing was left.';

-- What runs is read from a place on. It is the newest id at the claim; what runs on and on is moved to a later one.
alter table lakequeue.task_attempts add column place bigint not null default 0;
alter table lakequeue.task_attempts
  alter column place set default coalesce(pg_sequence_last_value('lakequeue.task_attempts_id_seq'), 0);
comment on column lakequeue.task_attempts.place is
  'Where it stands in task_attempts_spending while it runs: the newest id at its claim, or when it was last moved (_note_running).';
drop index lakequeue.task_attempts_spending;
create index task_attempts_spending on lakequeue.task_attempts (endpoint_id, run_ended_at, place);

create table lakequeue.running_books (
  endpoint_id integer not null,
  no bigint not null default 1,
  place_from bigint not null default 0,
  primary key (endpoint_id, no)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table lakequeue.running_books is
  'Where what runs at an endpoint begins, so that counts pass no dead entries; without a row: anywhere.';
comment on column lakequeue.running_books.endpoint_id is 'The endpoint.';
comment on column lakequeue.running_books.no is 'Rises with each change.';
comment on column lakequeue.running_books.place_from is 'No attempt with a lower place runs.';
