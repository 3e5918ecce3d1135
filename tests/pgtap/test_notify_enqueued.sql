-- Rule 14: new tasks nudge workers and watchers once a statement, however many there are. A statement that inserts none
-- in the end does so, too: once too often does no harm.
begin;
\ir scenarios.sql
select plan(12);

-- --- for real: the guards of the two channels are held from the statement to the end of the transaction ------------

create function pg_temp.guards()
returns integer[] language sql
as $$
  select coalesce(array_agg((l.objid::bigint - 4294967296)::integer order by l.objid desc), '{}')
  from pg_locks l
  where l.locktype = 'advisory' and l.classid = lakequeue._lock_class()::oid and l.objsubid = 2 and l.pid = pg_backend_pid() and l.objid > 2147483648
$$;
select is(pg_temp.guards(), '{}', 'before the first task nobody is nudged');
insert into tasks (agent_id, document_path, priority, created_at, estimated_tokens)
select 1, '/a.pdf', 5, _now(), 1 from generate_series(1, 3);
select is(pg_temp.guards(), '{-1,-2}', 'a statement that inserts tasks nudges workers and watchers');
select ok(has_function_privilege('test_app', 'lakequeue.enqueue_task(text, text, integer, text, bigint, json, text, integer, bigint)', 'execute')
          and not has_function_privilege('test_app', 'lakequeue._nudge(text)', 'execute'), 'who enqueues needs no privilege for that');

-- --- counted ---------------------------------------------------------------------------------------------------------

\ir nudges.sql
select new_agent() as agent \gset
select is(nudged(format('select enqueue_task(%L, ''/a.pdf'', dedup_key => ''a'')', :'agent')), 'changes, worker', 'a task');
select is(nudged(format('select enqueue_tasks(%L, (select json_agg(json_build_object(''document_path'', n::text)) from generate_series(1, 500) n))', :'agent')),
          'changes, worker', '500 tasks in one call');
select is(nudged(format('select enqueue_task(%L, ''/a.pdf'', dedup_key => ''a'')', :'agent')), 'changes, worker', 'a document that was there before');
select is(nudged(format('select enqueue_tasks(%L, ''[]'')', :'agent')), 'changes, worker', 'no documents');
select create_extraction('march') as extraction \gset
select is(nudged(format('select enqueue_tasks(%L, ''[{"name": "bad.pdf", "refusal": "encrypted"}]'', extraction => %s)', :'agent', :extraction)), 'changes, worker',
          'documents that were all refused');
select is(nudged('insert into tasks (agent_id, document_path, priority, created_at, estimated_tokens) select 1, ''/a.pdf'', 5, _now(), 1 where false'), 'changes, worker',
          'a raw statement that inserts none');
select is(nudged('insert into tasks (agent_id, document_path, priority, created_at, estimated_tokens) select 1, ''/a.pdf'', 5, _now(), 1 from generate_series(1, 9)'),
          'changes, worker', 'a raw statement that inserts many');
select task_of(attempt_in('confirmed')) as completed \gset
select is(nudged(format('select reprocess_task(%s)', :completed)), 'changes, worker', 'a task that is parsed again');
select ok(t.tgenabled = 'O', 'the trigger is enabled') from pg_trigger t where t.tgrelid = 'lakequeue.tasks'::regclass and t.tgname = 'notify_enqueued';

select * from finish();
rollback;
