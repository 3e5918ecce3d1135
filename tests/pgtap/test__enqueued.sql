-- How many tasks wait, from the ledger: folded or not, it is what a count would say.
begin;
\ir scenarios.sql
select plan(5);

select new_agent() as agent \gset
select id from agents where name = :'agent' \gset
select is(_enqueued(:id), 0::bigint, 'none');
select enqueue_task(:'agent', '/1'), enqueue_task(:'agent', '/2'), enqueue_task(:'agent', '/3') \gset
select is(_enqueued(:id), 3::bigint, 'three, not folded yet');
select fold_rollups() \gset
select is(_enqueued(:id), 3::bigint, 'three, folded');
select fail_attempt(d.attempt_id, 'crash') from dequeue_tasks('w', 2, array[:'agent']) d limit 1;
select is(_enqueued(:id), (select count(*) from tasks t where t.agent_id = :id and t.status = 'enqueued'),
  'one that waits for its retry counts, one that runs does not');
set session authorization test_reader;
select throws_ok('select lakequeue._enqueued(1)', '42501', null, 'it is internal');

select * from finish();
rollback;
