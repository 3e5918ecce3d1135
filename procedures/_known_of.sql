-- What a report of an attempt is decided by (_apply_callback, store_result). Read under its task's row lock.
--
-- id: of the attempt. Returns its row: attempt, its agent's output_share and reconcile_grace, how many of the agent's attempts
-- have failed in a row (null: none yet), and whether a result is stored.
create or replace function lakequeue._known_of(id bigint)
returns table (
  attempt lakequeue.task_attempts, output_share real, reconcile_grace interval, failures_in_a_row integer, stored boolean)
language sql stable
begin atomic
  select a, g.output_share, g.reconcile_grace,
         (select k.failures from breaker_books k where k.agent_id = g.id order by k.no desc limit 1),
         exists (select from results r where r.attempt_id = a.id)
  from task_attempts a
  join agents g on g.id = a.agent_id
  where a.id = _known_of.id;
end;

comment on function lakequeue._known_of(bigint) is 'What a report of an attempt is decided by.';
