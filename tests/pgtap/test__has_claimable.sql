-- An agent has something claimable only while a task of its own is enqueued and waits for no retry.
begin;
select plan(8);

create temporary table made as select configure_agent('_hc a') as a, configure_agent('_hc b') as b;
select ok(not _has_claimable((select a from made)), 'an agent without tasks has none');
create temporary table task as select enqueue_task('_hc a', '/a.pdf') as id;
select ok(_has_claimable((select a from made)), 'one with an enqueued task has');
select ok(not _has_claimable((select b from made)), 'another agent has not');
update tasks set retry_at = _now() - interval '1 hour' where id = (select id from task);
select ok(not _has_claimable((select a from made)), 'a task that waits for its retry is not claimable until a sweep clears it');
update tasks set retry_at = null where id = (select id from task);
select dequeue_tasks('w', agents => array['_hc a']);
select ok(not _has_claimable((select a from made)), 'nor is one that is processing');
update tasks set status = 'failed', locked_by = null, lease_expires_at = null, finished_at = _now() where id = (select id from task);
select ok(not _has_claimable((select a from made)), 'nor a failed one');
select ok(not _has_claimable(null), 'null is no agent');

set session authorization test_worker;
select throws_ok('select lakequeue._has_claimable(1)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
