-- The length of the queue is noted once in 5 minutes, by whoever folds, and forgotten after 35 days.
begin;
\ir scenarios.sql
select plan(6);

delete from queue_samples;
select new_agent() as agent \gset
select id from agents where name = :'agent' \gset
select set_clock('2026-01-01 12:03+00') \gset
select enqueue_task(:'agent', '/1'), enqueue_task(:'agent', '/2'), enqueue_task(:'agent', '/3') \gset
select d.task_id from dequeue_tasks('w', 1, array[:'agent']) d;
select fold_rollups() \gset
create function pg_temp.samples(agent integer) returns setof text language sql as $$
  select to_char(q.at at time zone 'UTC', 'DD HH24:MI ') || q.enqueued || ' ' || q.processing
  from lakequeue.queue_samples q where q.agent_id = agent order by q.at
$$;
select results_eq(format('select pg_temp.samples(%s)', :id), array['01 12:00 2 1'], 'two wait, one runs, in these 5 minutes');
select advance('1 minute') \gset
select cancel_tasks(array(select t.id from tasks t where t.agent_id = :id));
select fold_rollups() \gset
select results_eq(format('select pg_temp.samples(%s)', :id), array['01 12:00 2 1'], 'it is not counted again in the same ones');
select advance('1 minute') \gset
select fold_rollups() \gset
select results_eq(format('select pg_temp.samples(%s)', :id), array['01 12:00 2 1', '01 12:05 0 1'], 'but in the next ones');
select advance('35 days') \gset
select _sample_queue() \gset
select results_eq(format('select pg_temp.samples(%s) offset 1', :id), array['05 12:05 0 1'], 'what is older than 35 days is forgotten');
select is((select count(*) from (select distinct q.at from queue_samples q) a), 2::bigint, 'nothing else is kept');
set session authorization test_worker;
select throws_ok('select lakequeue._sample_queue()', '42501', null, 'it is internal');

select * from finish();
rollback;
