-- The next tasks of an agent in rule 2's order, at most as many as asked for; none is locked.
begin;
select plan(7);

create temporary table made as select configure_agent('_lc a') as a, configure_agent('_lc b') as b;
select set_clock('2026-03-01 09:00+00');
select enqueue_task('_lc a', '/1', priority => 5);
select enqueue_task('_lc a', '/2', priority => 5);
select enqueue_task('_lc b', '/other', priority => 9);
select set_clock('2026-03-01 08:00+00');
select enqueue_task('_lc a', '/3', priority => 5);
select enqueue_task('_lc a', '/4', priority => 0);
select set_clock('2026-03-01 10:00+00');
select enqueue_task('_lc a', '/5', priority => 9, page_count => 3, document_bytes => 70);
select enqueue_task('_lc a', '/retry', priority => 9);
update tasks set retry_at = _now() where document_path = '/retry' and agent_id = (select a from made);
update tasks set passed_over_at = _now() where document_path = '/5' and agent_id = (select a from made);

create function pg_temp.paths(how_many integer) returns text language sql as $$
  select string_agg(t.document_path, ' ' order by c.ordinality)
  from lakequeue._candidates((select m.a from pg_temp.made m), how_many) with ordinality c
  join lakequeue.tasks t on t.id = c.id
$$;
select is(pg_temp.paths(100), '/5 /3 /1 /2 /4', 'by priority, then created_at, then id; one that waits for a retry is left out');
select is(pg_temp.paths(2), '/5 /3', 'at most as many as asked for');
select is(pg_temp.paths(0), null, 'none if none are asked for');
select is((select count(*) from _candidates(null, 10)), 0::bigint, 'null is no agent');
select is((select count(*) from tasks t where t.agent_id in (select unnest(array[m.a, m.b]) from made m) and t.xmax <> '0'::xid
    and t.status = 'enqueued' and t.retry_at is null and t.passed_over_at is null), 0::bigint, 'nothing is locked');
select results_eq(
  $$select priority, created_at, page_count, document_bytes, passed_over_at from _candidates((select a from made), 1)$$,
  $$values (9::smallint, '2026-03-01 10:00+00'::timestamptz, 3, 70::bigint, '2026-03-01 10:00+00'::timestamptz)$$,
  'each with what the throttle needs');

set session authorization test_worker;
select throws_ok('select * from lakequeue._candidates(1, 1)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
