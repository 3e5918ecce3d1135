-- Rule 6: in any isolation level with one snapshot for the whole transaction the counts would be stale: refused.
begin;
set transaction isolation level repeatable read;
select plan(3);

select configure_agent('_iso parser', max_concurrent_tasks => 1), enqueue_task('_iso parser', '/a.pdf');
select throws_ok($$select * from dequeue_tasks('w', 1, array['_iso parser'])$$, 'LQ428', 'dequeue_tasks cannot run in a repeatable read transaction',
  'REPEATABLE READ is refused');
select throws_ok($$select * from dequeue_tasks(null)$$, 'LQ428', null, 'before anything else is looked at');
select is((select enqueued from agent_status(array['_iso parser'])), 1::bigint, 'nothing was claimed');

select * from finish();
rollback;
