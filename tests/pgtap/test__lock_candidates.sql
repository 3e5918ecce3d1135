-- The next tasks of an agent in rule 2's order are locked, at most as many as asked for. What others have locked is passed
-- in tests/race.
begin;
select plan(7);

create temporary table made as select configure_agent('_lk a') as a, configure_agent('_lk b') as b;
select set_clock('2026-03-01 09:00+00');
select enqueue_task('_lk a', '/' || n, priority => n % 3) from generate_series(1, 40) n order by n;
select enqueue_task('_lk b', '/other', priority => 9);
update tasks set retry_at = _now() where document_path = '/2' and agent_id = (select a from made);

create function pg_temp.taken(how_many integer) returns text language sql as $$
  select string_agg(t.document_path, ' ' order by i.ordinality)
  from unnest(lakequeue._lock_candidates((select m.a from pg_temp.made m), how_many)) with ordinality i(id)
  join lakequeue.tasks t on t.id = i.id
$$;
create function pg_temp.locked() returns bigint language sql as $$
  select count(*) from lakequeue.tasks t
  where t.xmax <> '0'::xid and t.status = 'enqueued' and t.retry_at is null
    and t.agent_id in (select unnest(array[m.a, m.b]) from pg_temp.made m)
$$;
select is(pg_temp.locked(), 0::bigint, '(nothing is locked)');
select is(pg_temp.taken(3), '/5 /8 /11', 'the highest priority first, then the oldest; one that waits for a retry is left out');
select is(pg_temp.locked(), 3::bigint, 'these are locked, and no more than these');
select is(pg_temp.taken(100), (
    select string_agg(t.document_path, ' ' order by t.priority desc, t.created_at, t.id)
    from tasks t where t.agent_id = (select a from made) and t.retry_at is null),
  'all of them in rule 2''s order where as many are asked for');
select is(pg_temp.taken(0), null, 'none if none are asked for');
select is(_lock_candidates(null, 10), '{}', 'null is no agent');

set session authorization test_worker;
select throws_ok('select lakequeue._lock_candidates(1, 1)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
