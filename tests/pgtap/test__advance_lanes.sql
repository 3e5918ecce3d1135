-- Where claimable tasks begin moves on in three steps of a transaction each (here: as if somebody else had made the one
-- before). What others do meanwhile is tests/race/test_lanes.py's.
begin;
select plan(20);

create temporary table made as select configure_agent('_al a') as a, configure_agent('_al b') as b;
select set_clock('2026-03-01 09:00+00');
create temporary table task as
select n, enqueue_task('_al a', '/' || n, priority => case when n <= 4 then 5 else 3 end) as id from generate_series(1, 6) n;

create function pg_temp.step() returns void language plpgsql as $$
begin
  update lakequeue.claim_books k set noted_in = '3';
  perform lakequeue._advance_lanes(m.a, '{5}') from pg_temp.made m;
end $$;
create function pg_temp.stretches() returns text language sql as $$
  select string_agg(format('%s:%s-%s %s/%s', s.lane, s.highest, s.lowest, to_char(s.created_from at time zone 'utc', 'HH24:MI'),
                           case when s.id_from < 9223372036854775807 then (select '/' || t.n from pg_temp.task t where t.id = s.id_from)
                                when s.id_from is not null then 'end' end), ', '
                    order by s.lane, s.highest desc)
  from pg_temp.made m cross join lateral lakequeue._lanes(m.a) s
$$;
create function pg_temp.claim(how_many integer) returns void language sql as $$
  select lakequeue.dequeue_tasks('w', how_many, array['_al a']);
$$;

select set_clock('2026-03-01 10:00+00');
select _advance_lanes(a, '{5}') from made;
select is(pg_temp.stretches(), '-1:9-0 /, 0:9-0 /, 1:9-0 /, 2:9-0 /', 'a lane more; fresh tasks are anywhere as before');
select results_eq($$select lane, noted_at, noted_in = pg_current_xact_id(), holders from claim_books, made where agent_id = a$$,
  $$values (2, '2026-03-01 10:00+00'::timestamptz, true, null::text[])$$, 'it is the current one from now on; the time is noted');
select _advance_lanes(a, '{5}') from made;
select is((select max(no) from claim_books, made where agent_id = a), 2::bigint, 'in the same transaction nothing follows: nobody else has read it');
select is((select count(*) from claim_books, made where agent_id = b), 0::bigint, 'others are not concerned');

-- Nobody else writes, so that the second step is the third one, too.
select pg_temp.claim(2);
select set_clock('2026-03-01 11:00+00');
select pg_temp.step();
select is(pg_temp.stretches(), '-1:9-0 /, 0:9-6 /, 0:5-5 09:00//3, 0:4-0 /, 2:9-0 /, 3:9-0 /',
  'the priority that was claimed begins with the first task left; the lane that was used up is gone');
select is((select noted_at from claim_books, made where agent_id = a), '2026-03-01 11:00+00'::timestamptz, 'and the next time is noted');
select pg_temp.claim(2);
select pg_temp.step();
select is(pg_temp.stretches(), '-1:9-0 /, 0:9-6 /, 0:5-5 11:00/end, 0:4-0 /, 3:9-0 /, 4:9-0 /', 'where none is left, after the time that was noted');
select is((select count(*) from _candidates((select a from made), 10)), 2::bigint, 'those of the other priority are found');

-- The clock goes back.
select set_clock('2026-03-01 10:30+00');
insert into task select 7, enqueue_task('_al a', '/7', priority => 5);
select is((select t.lane from tasks t join task k using (id) where k.n = 7), 4, 'a task as of an earlier time than the noted one is in a lane');
select results_eq('select k.n from made cross join lateral _candidates(a, 10) with ordinality c join task k using (id) order by c.ordinality',
  array[7, 5, 6], 'in its place');
select pg_temp.step();
select is((select noted_at from claim_books, made where agent_id = a), '2026-03-01 11:00+00'::timestamptz, 'the time that is noted never goes back');

-- What came back is moved along, so that its lane is used up.
select pg_temp.step();
select is((select t.lane >= 5 from tasks t join task k using (id) where k.n = 7), true, 'the one left in a former lane is moved to the current one');
select is((select count(*) from made cross join lateral _lanes(a) s where s.lane between 1 and 4), 0::bigint, 'and that lane is gone');

-- More of them than claims have gone by stay where they are: only where they begin moves on.
select set_clock('2026-03-01 10:40+00');
select pg_temp.claim(1);  -- the one that was moved
select pg_temp.step() from generate_series(1, 70);  -- no matter how many went by before there was anything to move
insert into task select n, enqueue_task('_al a', '/' || n, priority => 1) from generate_series(10, 1009) n;
create temporary table entered as select t.lane from tasks t join task k using (id) where k.n >= 10 group by t.lane;
select pg_temp.step() from generate_series(1, 3);
select is((select array_agg(distinct t.lane) from tasks t join task k using (id) where k.n >= 10), array(select lane from entered),
  'many in a former lane are not moved');
select matches(pg_temp.stretches(), ':1-1 10:40//10', 'it begins with the first of them');
select is((select count(*) from _candidates((select a from made), 2000)), 1002::bigint, 'all are found');

-- Nor are they read again and again.
update claim_books k set moved_no = k.no - 40;
create temporary table reads as
select s.idx_tup_fetch as before from pg_stat_xact_user_tables s where s.relid = 'lakequeue.tasks'::regclass;
select pg_temp.step() from generate_series(1, 20);
select cmp_ok(s.idx_tup_fetch - r.before, '<', 12000::bigint, 'many in a former lane are seldom looked at')
from pg_stat_xact_user_tables s, reads r where s.relid = 'lakequeue.tasks'::regclass;
select is((select count(distinct t.lane) from tasks t join task k using (id) where k.n >= 10), 1::bigint, 'where they still are');

-- A transaction that was prepared has lost the name it was known by.
update claim_books k set holders = array['1/1'], noted_in = '3';
create function pg_temp.no() returns bigint language sql as $$ select max(k.no) from lakequeue.claim_books k, pg_temp.made m where k.agent_id = m.a $$;
create temporary table before as select pg_temp.no();
select _advance_lanes(a, '{5}') from made;
select is(pg_temp.no(), (select no + 1 from before), 'those who held a lock are gone: it moves on');

set session authorization test_worker;
select throws_ok('select lakequeue._advance_lanes(1, null)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
