-- Lanes, their books, and indexes with the columns that these count on.
select agent_id, no, lane, lanes, highest, lowest, created_from, id_from, noted_at, noted_in, holders, moved_no
from lakequeue.claim_books where false;
select endpoint_id, no, place_from from lakequeue.running_books where false;
do $$
begin
  assert pg_get_indexdef('lakequeue.tasks_claimable'::regclass, 2, true) = 'lane', 'tasks_claimable has no lanes';
  assert pg_get_indexdef('lakequeue.task_attempts_spending'::regclass, 3, true) = 'place', 'task_attempts_spending has no places';
end $$;
