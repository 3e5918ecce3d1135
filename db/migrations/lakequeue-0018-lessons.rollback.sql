set local role lakequeue_owner;

-- The functions of before read upwards from call_from alone, so moved calls go back to the newest place.
update lakequeue.model_calls
set place = greatest(pg_sequence_last_value('lakequeue.model_calls_id_seq'), (select max(k.call_from) from lakequeue.running_books k))
where place >= 1::bigint << 62 and ended_at is null;
comment on column lakequeue.model_calls.place is
  'Where it stands in model_calls_open until it ends: the newest id when it was asked for, or when it was last moved (_note_calls).';
comment on column lakequeue.running_books.call_from is 'No call with a lower place is open.';
alter table lakequeue.running_books drop column calls_overtaken, drop column calls_overtaken_from;

alter table lakequeue.agents
  add column learnt_at timestamptz,
  add column learnt_from integer not null default 0,
  add column estimate_error_p50 real,
  add column estimate_error_p95 real;
comment on column lakequeue.agents.learnt_at is 'When the figures below were last learnt.';
comment on column lakequeue.agents.learnt_from is 'From how many attempts.';
comment on column lakequeue.agents.estimate_error_p50 is 'Median of used / estimated - 1 of the last attempts.';
comment on column lakequeue.agents.estimate_error_p95 is '95th percentile of used / estimated - 1 of the last attempts.';
update lakequeue.agents a
set learnt_at = k.learnt_at, learnt_from = k.learnt_from, estimate_error_p50 = k.estimate_error_p50, estimate_error_p95 = k.estimate_error_p95
from (select distinct on (b.agent_id) b.* from lakequeue.learning_books b order by b.agent_id, b.no desc) k
where k.agent_id = a.id;
drop table lakequeue.learning_books;
