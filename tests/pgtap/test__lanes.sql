-- Where the claimable tasks of an agent are: in every lane that there is at first, then in the stretches of its newest book.
begin;
select plan(6);

create temporary table made as select configure_agent('_ln a') as a, configure_agent('_ln b') as b;
create function pg_temp.stretches(agent integer) returns text language sql as $$
  select string_agg(format('%s:%s-%s %s/%s', s.lane, s.highest, s.lowest, s.created_from at time zone 'utc', s.id_from), ', '
                    order by s.lane, s.highest desc)
  from lakequeue._lanes(agent) s
$$;
select is(pg_temp.stretches(a), '-1:9-0 /, 0:9-0 /, 1:9-0 /', 'without a book: the three lanes from which it starts') from made;
insert into claim_books (agent_id) select a from made;
select is(pg_temp.stretches(a), '-1:9-0 /, 0:9-0 /, 1:9-0 /', 'with a first book the same') from made;
insert into claim_books (agent_id, no, lanes, highest, lowest, created_from, id_from)
select a, 2, '{0,0,4}', '{9,5,9}', '{6,5,0}', array[null, '2026-03-01 09:00+00', null]::timestamptz[], '{null,7,null}' from made;
select is(pg_temp.stretches(a), '0:9-6 /, 0:5-5 2026-03-01 09:00:00/7, 4:9-0 /', 'else what the newest book says') from made;
select is(pg_temp.stretches(b), '-1:9-0 /, 0:9-0 /, 1:9-0 /', 'of its own agent') from made;
select is(pg_temp.stretches(null), '-1:9-0 /, 0:9-0 /, 1:9-0 /', 'null is no agent: nothing is there');

set session authorization test_worker;
select throws_ok('select * from lakequeue._lanes(1)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
