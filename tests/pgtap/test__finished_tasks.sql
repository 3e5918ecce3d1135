-- Finished tasks under a filter, newest first, so many at most.
begin;
\ir scenarios.sql
select plan(13);

update installation set time_zone = 'Asia/Tokyo';
create temporary table made (no integer, task bigint);
select set_clock('2026-01-01 12:00+00');
insert into made select 1, task_of(job_run(1));
select set_clock('2026-01-01 16:00+00');  -- the next day in Tokyo
insert into made select 2, task_of(job_run(2));
insert into made select 3, task_of(job_run(3, outcome => 'permanent_failure'));
insert into made select 4, new_task();
create function pg_temp.found(statuses text[] default null, from_day date default null, to_day date default null, customers text[] default null, most integer default 10)
returns integer[] language sql as $$
  select array_agg(m.no order by f.place)
  from _finished_tasks(_agent_ids(null), _statuses(statuses), from_day, to_day, customers, most) with ordinality
    f(task_id, agent_id, customer, status, day, finished_at, place) join made m on m.task = f.task_id
$$;

select is(pg_temp.found(), '{3,2,1}', 'finished ones, newest first');
select is(pg_temp.found('{completed,enqueued}'), '{2,1}', 'of a status; a live one is not finished');
select is(pg_temp.found(from_day => '2026-01-02'), '{3,2}', 'from a day on, in the reporting time zone');
select is(pg_temp.found(to_day => '2026-01-01'), '{1}', 'up to a day');
select is(pg_temp.found(customers => '{nobody}'), null, 'of a customer');
select is(pg_temp.found(most => 1), '{3}', 'so many at most');
select results_eq(
  $$select f.agent_id, f.customer, f.status::text, f.day from _finished_tasks(_agent_ids(null), _statuses(null), null, null, null, 1) f$$,
  $$select t.agent_id, 'acme', 'failed', date '2026-01-02' from tasks t join made m on m.task = t.id where m.no = 3$$,
  'with what reports group by');
select is((select array_agg(m.no order by f.finished_at desc, f.task_id desc) from made a
   cross join lateral _finished_tasks(_agent_ids(null), _statuses(null), null, null, customers, 10, (select t.finished_at from tasks t where t.id = a.task), a.task) f
   join made m on m.task = f.task_id where a.no = 3), '{2,1}', 'that stand behind one, of ' || coalesce(customers::text, 'all'))
from (values (null::text[]), ('{acme}'), ('{acme,acme,null}')) c(customers);
select is(pg_temp.found(customers => '{null}'), null, 'of no customer');

-- Far back in a long history no more is read than at its end.
insert into tasks overriding system value
select (c.copy).*
from (select jsonb_populate_record(t, jsonb_build_object('id', 1000000 - n, 'finished_at', t.finished_at - n * interval '1 minute')) as copy
      from tasks t cross join generate_series(1, 2500) n
      where t.id = (select m.task from made m where m.no = 1)) c;
create function pg_temp.pages_behind(back integer, customers text[]) returns integer language sql as $$
  select pages(format('select f.task_id from _finished_tasks(_agent_ids(null), _statuses(null), %L, null, %L, 10, %L, %s) f',
                      case when customers is not null then date '2026-01-01' - back / 1440 - 1 end, customers,
                      timestamptz '2026-01-01 12:00+00' - back * interval '1 minute', 1000000 - back))
$$;
select cmp_ok(pg_temp.pages_behind(2400, customers), '<=', pg_temp.pages_behind(100, customers) + 8, 'no more pages, of ' || coalesce(customers::text, 'all'))
from (values (null::text[]), ('{acme}')) c(customers);
select * from finish();
rollback;
