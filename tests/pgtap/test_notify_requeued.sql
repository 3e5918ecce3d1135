-- Rule 14: what waits again nudges workers, also if a raw statement names no more than it must (test_notify_changed.sql has
-- every change).
begin;
\ir scenarios.sql
\ir nudges.sql
select plan(3);
select new_task() as task \gset
select claim(:task) \gset
select is(nudged(format($$update tasks set status = 'enqueued', locked_by = null, lease_expires_at = null where id = %s$$, :task)), 'changes, worker', 'back in the queue');
select is(nudged(format('update tasks set retry_at = null where id = %s', :task)), 'worker', 'a retry that is due');
select ok(t.tgenabled = 'O', 'the trigger is enabled') from pg_trigger t where t.tgrelid = 'lakequeue.tasks'::regclass and t.tgname = 'notify_requeued';
select * from finish();
rollback;
