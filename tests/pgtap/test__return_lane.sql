-- The lane to which a task comes back: the current one of its agent. Whoever gives a task back, or another place, uses it;
-- a claim and an end do not.
begin;
\ir scenarios.sql
select plan(13);
select without_upkeep();

create temporary table made as select configure_agent('_rl a') as a, configure_agent('_rl b') as b;
select is(_return_lane(a), 1, 'without a book the first') from made;
insert into claim_books (agent_id, no, lane) select a, 1, 4 from made union all select a, 2, 5 from made;
select is(array[_return_lane(a), _return_lane(b)], '{5,1}', 'what the newest book of the agent says') from made;
select is(_return_lane(null), 1, 'null is no agent');

-- Everybody who makes a task claimable that was not, or not there.
create function pg_temp.lane(task bigint) returns integer language plpgsql as $$
begin  -- after the statement that changed it
  return (select t.lane from lakequeue.tasks t where t.id = lane.task);
end $$;
create function pg_temp.seven(task bigint) returns bigint language sql as $$
  insert into lakequeue.claim_books (agent_id, no, lane) select t.agent_id, 1, 7 from lakequeue.tasks t where t.id = seven.task;
  select seven.task;
$$;
select new_task() as fresh \gset
select is(pg_temp.lane(pg_temp.seven(:fresh)), 0, 'a new task is in no lane of these');
select claim(:fresh) as attempt \gset
select is(pg_temp.lane(:fresh), 0, 'nor is one that was claimed');
select report(:attempt, 'failure');
select is(pg_temp.lane(:fresh), 7, 'one given back is');
update claim_books k set lane = 8 where k.agent_id = (select t.agent_id from tasks t where t.id = :fresh);
select set_clock(_now() + interval '1 hour');
select sweep_leases();
select is(pg_temp.lane(:fresh), 8, 'and again when its retry is due');
select start(1) as last \gset
select pg_temp.seven(task_of(:last));
select report(:last, 'failure');
select is(pg_temp.lane(task_of(:last)), 0, 'one that has failed for good is not');
select retry_task(task_of(:last), 'because');
select is(pg_temp.lane(task_of(:last)), 7, 'when it is retried it is');
select pg_temp.seven(new_task()) as other \gset
select set_priority(:other, 9, 'because');
select is(pg_temp.lane(:other), 7, 'one that gets another priority');
select start() as good \gset
select pg_temp.seven(task_of(:good));
select report(:good, 'success', '{"fields": {}}');
select reprocess_task(task_of(:good), 'because');
select is((select t.lane from tasks t where t.reprocess_of = task_of(:good)), 7, 'one that parses another again');
update claim_books k set noted_at = _now() where k.agent_id = (_agent('_rl a')).id;
select is(pg_temp.lane(enqueue_task('_rl a', '/early')), 5, 'one enqueued as of a time that was noted');

set session authorization test_worker;
select throws_ok('select lakequeue._return_lane(1)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
