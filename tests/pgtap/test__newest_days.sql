-- The days on which tasks under a filter finished, as many as hold so many; who looks for a customer's tasks reads these alone.
begin;
\ir scenarios.sql
select plan(14);

update installation set time_zone = 'Asia/Tokyo';
create temporary table made (task bigint, customer text);
create function pg_temp.finished(at timestamptz, customer text, outcome text default 'success') returns void language sql as $$
  select set_clock(at);
  with found as (select task_of(job_run((select 1 + count(*) from made), outcome => outcome)) as task)
  insert into made select f.task, finished.customer from found f;
$$;
create function pg_temp.days(
  from_day date default null, to_day date default null, customers text[] default null, most integer default null,
  whole_before date default null, statuses text[] default null)
returns text language sql as $$
  select string_agg(format('%s %s', to_char(d.day, 'MM-DD'), d.status), ', ' order by d.day desc, d.status)
  from (select distinct n.day, n.status
        from _newest_days(_agent_ids(null), _statuses(statuses), from_day, to_day, customers, most, whole_before) n) d
$$;
select pg_temp.finished('2026-01-01 12:00+00', 'acme');
select pg_temp.finished('2026-01-02 16:00+00', 'acme');  -- the next day in Tokyo
select pg_temp.finished('2026-01-02 17:00+00', 'acme', 'permanent_failure');
select pg_temp.finished('2026-01-05 12:00+00', 'acme');
select new_task() \gset
select fold_rollups() \gset
select pg_temp.finished('2026-01-06 12:00+00', 'acme');  -- not folded yet

select is(pg_temp.days(), '01-06 completed, 01-05 completed, 01-03 completed, 01-03 failed, 01-01 completed',
  'all days, in the reporting time zone, folded or not; a live task has none');
select is(pg_temp.days(from_day => '2026-01-03', to_day => '2026-01-05'), '01-05 completed, 01-03 completed, 01-03 failed', 'of a range');
select is(pg_temp.days(statuses => '{failed}'), '01-03 failed', 'of a status');
select is(pg_temp.days(customers => '{nobody}'), null, 'of a customer');
select is(pg_temp.days(most => 1), '01-06 completed', 'one task: the newest day');
select is(pg_temp.days(most => 3), '01-06 completed, 01-05 completed, 01-03 completed, 01-03 failed', 'three: a day is not halved');
select is(pg_temp.days(most => 1, whole_before => '2026-01-06'), '01-06 completed, 01-05 completed',
  'a day that is not whole is given, and another one for it');

-- Tasks of somebody else are not looked at.
select cmp_ok(reads('tasks', 'select list_tasks()'), '>', 4::bigint, 'a list reads tasks');
select is(reads('tasks', $$select list_tasks(statuses => '{completed,failed}', customers => '{nobody}')$$), 0::bigint,
  'one of a customer that has none does not');
select is(reads('tasks', $$select count(*) from _finished_tasks(_agent_ids(null), _statuses(null), null, null, '{nobody}', 10)$$), 0::bigint,
  'nor does what summaries start from');
select is(
  (select array_agg(l.task_id) from list_tasks(customers => '{acme}', statuses => '{completed,failed}', page_size => 2,
     after_at => '2026-01-05 12:00+00', after_id => (select max(m.task) from made m)) l),
  (select array_agg(t.id order by t.finished_at desc)
   from (select t.* from tasks t where t.finished_at <= '2026-01-05 12:00+00' order by t.finished_at desc limit 2) t),
  'a page of a customer that begins within a day goes on to the next days');

-- What was purged stands in the ledger, and nowhere else.
select is(p.tasks, 1, '(the failed one is purged)') from purge_tasks('1 day') p;
select is(pg_temp.days(to_day => '2026-01-03', most => 2), '01-03 completed, 01-01 completed', 'it does not count any more');
select is((select count(*) from list_tasks(to_day => '2026-01-03', statuses => '{completed,failed}', customers => '{acme}', page_size => 2)),
  2::bigint, 'so a page goes on to what is left of older days');

select * from finish();
rollback;
