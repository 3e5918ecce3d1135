set local role lakequeue_owner;

alter table lakequeue.agents add column failures_in_a_row integer not null default 0 check (failures_in_a_row >= 0);
comment on column lakequeue.agents.failures_in_a_row is
  'Failures since the last success; verdicts on a document, rate limits and cancels do not count.';
update lakequeue.agents a set failures_in_a_row = k.failures
from (select distinct on (b.agent_id) b.agent_id, b.failures from lakequeue.breaker_books b order by b.agent_id, b.no desc) k
where k.agent_id = a.id and k.failures > 0;
drop table lakequeue.breaker_books;
