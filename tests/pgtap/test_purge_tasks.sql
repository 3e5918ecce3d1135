-- purge_tasks: what was finished long ago goes with all that belongs to it, oldest first; totals stay, and stay provable.
begin;
\ir scenarios.sql
select plan(38);

-- Two batches: of one nothing will be left, of the other a refused file and a document that is still there.
select new_agent() as agent \gset
select create_extraction('old', 'acme', 'ann') as old, create_extraction('mixed', 'acme', 'ann') as mixed \gset
select max(task_id) from enqueue_tasks(:'agent', '[{"document_path": "/old.pdf"}]', extraction => :old) \gset
select max(task_id) from enqueue_tasks(:'agent', '[{"document_path": "/keyed.pdf", "dedup_key": "k"}, {"name": "x.txt", "refusal": "not a PDF"}]', extraction => :mixed) \gset
create function pg_temp.work(path text, outcome text default 'success')
returns bigint language plpgsql
as $$
declare
  v_attempt bigint := (select d.attempt_id from dequeue_tasks('w', 1, array[(select g.name from agents g join tasks t on t.agent_id = g.id
                                                                            where t.document_path = path)]) d);
begin
  perform record_runs(array[v_attempt], array[v_attempt + 1000]);
  perform report(v_attempt, outcome, case when outcome = 'success' then json '{"total": 1}' end, 0.5,
                 100, 10, 5, 0.25, true);
  perform fail_attempt(v_attempt, 'ended');
  return v_attempt;
end $$;
select pg_temp.work('/old.pdf') as old_attempt \gset
select pg_temp.work('/keyed.pdf') as keyed_attempt \gset
select task_of(:old_attempt) as old_task, task_of(:keyed_attempt) as keyed_task \gset
select task_of(attempt_in('reported permanent failure')) as failed \gset
select task_of(attempt_in('expired, cancelled in the queue')) as cancelled \gset
select attempt_in('result stored') as alive \gset
select new_task() as waiting \gset
select task_of(attempt_in('reported failure')) as retrying \gset
update task_attempts set run_ended_at = null where id = :alive;
select advance('30 days 1 s') \gset
select task_of(attempt_in('confirmed')) as recent \gset
update task_attempts set run_ended_at = coalesce(run_ended_at, ended_at) where status <> 'running' and id <> :alive;
create temporary table sums as select (jsonb_agg(to_jsonb(m) order by m.status))::text as totals from queue_metrics() m;
create temporary table pasts as select t.id, to_jsonb(t) as task from tasks t;

-- --- refused ----------------------------------------------------------------------------------------------------------

select refused(format('select purge_tasks(%s)', arguments), 'LQ400', arguments)
from unnest(array['null', '''23:59:59''', '''-1 day''', '''30 days'', null', '''30 days'', 0', '''30 days'', 1001']) arguments;
select says_and_changes_nothing('select tasks from purge_tasks(''31 days'')', '0', 'nothing is that old');

-- --- a batch ----------------------------------------------------------------------------------------------------------

set session authorization test_operator;
select results_eq('select * from purge_tasks(''30 days'', 1, true, ''retention'')', 'values (1, 1, 1, 1, 1)', 'no more than a batch, and the oldest first');
set session authorization test_owner;
select is_empty(format('select from tasks where id = %s', :old_task), 'the task is gone');
select is_empty(format('select from task_attempts where id = %s', :old_attempt), 'with its attempt');
select is_empty(format('select from results where attempt_id = %s', :old_attempt), 'the result');
select is_empty(format('select from task_events where task_id = %s', :old_task), 'what happened to it');
select is_empty(format('select from extraction_documents where extraction_id = %s', :old), 'its line on the batch page');
select is_empty(format('select from extractions where id = %s', :old), 'and the batch, of which nothing is left');
select row_is(to_jsonb(e), jsonb_build_object('actor', 'test_operator', 'reason', 'retention', 'detail',
              jsonb_build_object('tasks', 1, 'finished_before', _now() - interval '30 days')), 'who and why is noted')
from (select null) one left join task_events e on e.kind = 'purged';
select refused(format('select record_callback(%s, ''x'', ''success'')', :old_attempt), 'LQ404', 'whoever reports late is told that it is unknown');

select is(p.tasks, 2, 'the rest of what is old and over') from purge_tasks('30 days') p;
select is_empty(format('select from tasks where id in (%s, %s)', :failed, :cancelled), 'failed and cancelled ones');
select says_and_changes_nothing('select tasks from purge_tasks(''30 days'')', '0', 'and then nothing');
select set_eq('select p.id from pasts p join tasks t using (id) where to_jsonb(t) = p.task',
              array[:keyed_task, task_of(:alive), :waiting, :retrying, :recent]::bigint[], 'all others are as they were');

-- --- totals -----------------------------------------------------------------------------------------------------------

select is((select (jsonb_agg(to_jsonb(m) order by m.status))::text from queue_metrics() m), s.totals, 'totals are what they were') from sums s;
select ledger_is_exact();
select fold_rollups(10000) \gset
select is((select (jsonb_agg(to_jsonb(m) order by m.status))::text from queue_metrics() m), s.totals, 'also folded') from sums s;
select results_eq(
  $$select status::text, tasks, input_tokens, output_tokens, cached_tokens, llm_cost, bucket is null from purged_tasks
    where _day(hour) = '2026-01-01' and agent_id = (select g.id from agents g where g.name = $$ || quote_literal(:'agent') || ')',
  $$values ('completed', 1::bigint, 100::bigint, 10::bigint, 5::bigint, 0.25::numeric, false)$$, 'what was purged stands in sums');

-- --- keys and living runs ---------------------------------------------------------------------------------------------

select is((select max(e.task_id) from enqueue_tasks(:'agent', '[{"document_path": "/keyed.pdf", "dedup_key": "k"}]', extraction => :mixed) e),
          :keyed_task::bigint, 'a completed document is known still, by its key');
select create_extraction('met again', 'acme', 'ann') as again \gset
select count(*) from enqueue_tasks(:'agent', '[{"document_path": "/keyed.pdf", "dedup_key": "k"}]', extraction => :again) \gset met_
select is(p.tasks, 0, 'one that a new batch shows stays with it') from purge_tasks('30 days', completed => true) p;
update extractions set created_at = _now() - interval '31 days' where id = :again;
select is(p.tasks, 1, 'unless completed ones are to go as well') from purge_tasks('30 days', completed => true) p;
select is_empty(format('select from tasks where id = %s', :keyed_task), 'then it goes');
select results_eq(format('select name from extraction_documents where extraction_id = %s', :mixed), array['x.txt'], 'a refused file stays on its page');
select is((select count(*) from tasks t where t.id = task_of(:alive)), 1::bigint, 'a task whose run may be alive stays');
update task_attempts set run_ended_at = ended_at where id = :alive;
select is(p.tasks, 1, 'until it is known to be dead') from purge_tasks('30 days', 1000, true) p;
select is((select (jsonb_agg(to_jsonb(m) order by m.status))::text from queue_metrics() m), s.totals, 'totals are what they were') from sums s;

select not_for(login, 'select lakequeue.purge_tasks(''30 days'')')
from unnest(array['test_app', 'test_web', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
