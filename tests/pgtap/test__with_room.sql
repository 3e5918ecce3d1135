-- Of endpoints those where something might be claimed: by limits where one applies, else by what waits.
begin;
select plan(9);

create temporary table made as
  select configure_agent('_wr full', max_concurrent_tasks => 1) as "full", configure_agent('_wr roomy', max_concurrent_tasks => 2) as roomy,
         configure_agent('_wr free') as free, configure_agent('_wr idle') as idle;
select enqueue_task(a, '/' || n) from unnest(array['_wr full', '_wr roomy', '_wr free']) a, generate_series(1, 2) n;
select count(*) from dequeue_tasks('_wr w', agents => '{_wr full,_wr roomy}', batch_size => 2);

create function pg_temp.with_room(asked text[], served text[]) returns text[] language sql as $$
  select array(
    select e.name
    from unnest(lakequeue._with_room(
      array(select e.id from lakequeue.model_endpoints e join unnest(asked) with ordinality n(name, no) using (name) order by n.no),
      array(select a.id from lakequeue.agents a where a.name = any(served)))) with ordinality r(id, no)
    join lakequeue.model_endpoints e on e.id = r.id
    order by r.no)
$$;
select is(pg_temp.with_room('{_wr full}', '{_wr full}'), '{}', 'a full limit leaves no room');
select is(pg_temp.with_room('{_wr roomy}', '{_wr roomy}'), '{_wr roomy}', 'another one does');
select is(pg_temp.with_room('{_wr free}', '{_wr free}'), '{_wr free}', 'without a limit there is room');
select is(pg_temp.with_room('{_wr idle}', '{_wr idle}'), '{}', 'but nothing where nothing waits');
select is(pg_temp.with_room('{_wr roomy}', '{_wr full,_wr free}'), '{}', 'nothing for agents that are not served there');
select is(pg_temp.with_room('{_wr idle,_wr roomy,_wr full,_wr free}', '{_wr full,_wr roomy,_wr free,_wr idle}'), '{_wr roomy,_wr free}',
  'of many, in the order given');
select is(pg_temp.with_room('{}', '{_wr free}'), '{}', 'of none, none');
select is((select count(*) from tasks t where t.xmax <> '0'::xid and t.status = 'enqueued'
    and t.agent_id in (select unnest(array["full", roomy, free]) from made)), 0::bigint, 'a look locks nothing');

set session authorization test_worker;
select throws_ok('select lakequeue._with_room(array[1], array[1])', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
