-- Rule 14: a statement that finishes tasks, and so frees room, nudges workers once, however many they are
-- (test_notify_changed.sql has every change).
begin;
\ir scenarios.sql
\ir nudges.sql
select plan(3);
select claim(new_task()) from generate_series(1, 5);
select is(nudged($$update tasks set status = 'completed', locked_by = null, lease_expires_at = null, finished_at = now() where status = 'processing'$$),
          'changes, worker', 'room for all that listen');
select is(count(*), 1::bigint, 'said once') from scenario.nudges n where n.channel = 'lakequeue_worker';
select ok(t.tgenabled = 'O', 'the trigger is enabled') from pg_trigger t where t.tgrelid = 'lakequeue.tasks'::regclass and t.tgname = 'notify_finished';
select * from finish();
rollback;
