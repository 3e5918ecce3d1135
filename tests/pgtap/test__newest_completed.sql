-- The newest completed tasks of several agents, a sample of them; of a rare customer not from far back. Filters:
-- test_confidence_summary, which reads through it.
begin;
\ir scenarios.sql
select plan(11);

create temporary table done (id bigint);
insert into done select task_of(start()) from generate_series(1, 4);
do $$
declare
  v_task bigint;
begin
  for v_task in select d.id from done d order by d.id desc loop
    perform advance('1 minute');
    perform report((select a.id from task_attempts a where a.task_id = v_task), 'success', '1');
  end loop;
end $$;
create temporary view agents_of as select array_agg(agent_of(d.id)) as names from done d;
create function pg_temp.found(most integer, of_customers text[] default null) returns text language sql as $$
  select format('%s%s', (select string_agg(n.place::text, ' ' order by t.place)
                         from unnest(c.tasks) with ordinality t(id, place)
                         join (select d.id, row_number() over (order by d.id) as place from done d) n on n.id = t.id),
                case when c.more then ' and more' end)
  from agents_of a, lakequeue._newest_completed(null, null, null, a.names, of_customers, most) c
$$;
select is(pg_temp.found(10), '1 2 3 4', 'the newest first, over agents');
select is(pg_temp.found(4), '1 2 3 4', 'a sample of exactly all');
select is(pg_temp.found(2), '1 2 and more', 'a sample, and that there are more');

-- Three days on which another customer has one task each, among 200 of others.
do $$
begin
  for d in 1..3 loop
    perform set_clock(timestamptz '2026-02-01 12:00+00' + d * interval '1 day');
    insert into done values (enqueue_task(new_agent(), '/a.pdf', customer => 'rare'));
    perform report(claim((select max(d.id) from done d)), 'success', '1');
  end loop;
  perform fold_rollups();
  insert into task_rollups
  select (jsonb_populate_record(r, '{"customer": "others", "tasks": 200}')).* from task_rollups r where r.customer = 'rare' and r.status = 'completed';
end $$;
select is(pg_temp.found(3, '{rare}'), '7 and more', 'of a rare customer no further back than 50 tasks for each that is asked for');
select is(pg_temp.found(5, '{rare}'), '7 6 and more', 'but for whole days');
select is(pg_temp.found(10, '{rare}'), '7 6 5', 'all there are');
select is(pg_temp.found(3), '7 6 5 and more', 'of anybody there is no such bound');
select is(pg_temp.found(3, '{nobody}'), '', 'of a customer that there is not');
select results_eq($$select n.tasks, n.more from _newest_completed('2026-02-05', null, null, null, '{rare}', 3) n$$, $$values ('{}'::bigint[], false)$$, 'of days on which it has none');
select refused('select _newest_completed(null, null, null, null, null, 0)', 'LQ400', 'no sample');
set session authorization test_reader;
select throws_ok('select lakequeue._newest_completed(null, null, null, null, null, 1)', '42501', null, 'it is internal');

select * from finish();
rollback;
