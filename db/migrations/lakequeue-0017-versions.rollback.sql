set local role lakequeue_owner;

alter table lakequeue.agents add column failures_in_a_row integer not null default 0 check (failures_in_a_row >= 0);
comment on column lakequeue.agents.failures_in_a_row is
  'Failures since the last success; verdicts on a document, rate limits and cancels do not count.';
update lakequeue.agents a set failures_in_a_row = k.failures
from (select distinct on (b.agent_id) b.agent_id, b.failures from lakequeue.breaker_books b order by b.agent_id, b.no desc) k
where k.agent_id = a.id and k.failures > 0;
drop table lakequeue.breaker_books;

update lakequeue.task_attempts
set place = greatest(pg_sequence_last_value('lakequeue.task_attempts_id_seq'), (select max(k.place_from) from lakequeue.running_books k))
where place >= 1::bigint << 62 and run_ended_at is null;
comment on column lakequeue.task_attempts.place is
  'Where it stands in task_attempts_spending while it runs: the newest id at its claim, or when it was last moved (_note_running).';
comment on column lakequeue.running_books.place_from is 'No attempt with a lower place runs.';
alter table lakequeue.running_books drop column overtaken, drop column overtaken_from;
