-- Every percentile is made of the same counts: by whatever histograms a range and a filter are covered, they are those of
-- the tasks themselves, folded or not, also after retries and purges.
begin;
\ir scenarios.sql
select plan(9);

update installation set time_zone = 'Asia/Kolkata';
create function pg_temp.complete(agent text, customer text, response interval) returns void language plpgsql as $$
declare
  v_attempt bigint;
begin
  perform lakequeue.enqueue_task(agent, '/a', customer => customer);
  select d.attempt_id into v_attempt from lakequeue.dequeue_tasks('w', 1, array[agent]) d;
  perform test.advance(response);
  perform scenario.report(v_attempt, 'success', '1');
end $$;
select configure_agent('_r a'), configure_agent('_r b'), configure_agent('_r c') \gset
create temporary table seed as select (random() * 1e9)::integer as seed;
select diag('seed ' || seed), setseed(seed / 1e9) from seed;
-- 80 tasks within some 100 days, now and then folded
do $$
begin
  perform test.set_clock('2026-01-20 12:00+00');
  for n in 1..80 loop
    perform pg_temp.complete('_r ' || substr('abc', (random() * 2)::integer + 1, 1), (array['', 'acme', 'globex'])[(random() * 2)::integer + 1],
                             make_interval(secs => 1.5 ^ (random() * 15)));
    perform test.advance(make_interval(hours => (random() * 60)::integer));
    if n in (20, 40) or (n < 60 and random() < 0.1) then perform lakequeue.fold_rollups(); end if;
  end loop;
end $$;

-- the truth, with what was purged
create function pg_temp.truth(agent_ids integer[], customers text[], from_day date, to_day date, step text)
returns table (at timestamptz, bucket smallint, tasks bigint) language sql as $$
  select case step when 'hour' then date_trunc('hour', c.at, 'Asia/Kolkata') when 'day' then date_trunc('day', c.at at time zone 'Asia/Kolkata') at time zone 'UTC' end,
         c.bucket, sum(c.tasks)::bigint
  from (select t.agent_id, t.customer, t.finished_at as at, lakequeue._response_bucket(t.finished_at - t.created_at) as bucket, 1 as tasks
        from lakequeue.tasks t where t.status = 'completed'
        union all
        select p.agent_id, p.customer, p.hour, p.bucket, p.tasks from lakequeue.purged_tasks p where p.status = 'completed') c
  where c.agent_id = any(agent_ids) and (customers is null or c.customer = any(customers))
    and (from_day is null or (c.at at time zone 'Asia/Kolkata')::date >= from_day)
    and (to_day is null or (c.at at time zone 'Asia/Kolkata')::date <= to_day)
  group by 1, 2
$$;
-- every kind of range: within a month, whole months, from the middle of one to that of another, open ends, nothing
create temporary table asked as
select a.ids, c.customers, r.from_day, r.to_day, s.step
from (values (_agent_ids(null)), (_agent_ids('{"_r a"}')), (_agent_ids('{"_r a","_r c"}')), ('{}')) a(ids)
cross join (values (null::text[]), ('{acme}'), ('{acme,"",acme,null}'), ('{nobody}'), ('{}')) c(customers)
cross join (values (null::date, null::date), ('2026-02-01', null), (null, '2026-02-28'), ('2026-02-01', '2026-02-28'), ('2026-01-25', '2026-03-10'),
  ('2026-01-31', '2026-03-01'), ('2026-02-03', '2026-02-20'), ('2026-02-03', '2026-02-03'), ('2026-03-01', '2026-02-01'), ('2026-01-21', '2026-02-01'),
  ('-infinity', 'infinity')) r(from_day, to_day)
cross join (values ('all'), ('day')) s(step)
union all
select _agent_ids(null), null, d.from_day, d.from_day + (random() * 60)::integer, 'all'
from (select date '2026-01-15' + (random() * 100)::integer as from_day from generate_series(1, 30)) d;
-- of so many of them, drawn anew
create function pg_temp.wrong(step text, most integer) returns bigint language sql as $$
  select count(*)
  from (select a.* from asked a where wrong.step in (a.step, 'any') order by random() limit most) q
  where (select array_agg(a order by a.at, a.bucket)
         from (select r.at, r.bucket, sum(r.tasks)::bigint
               from lakequeue._responses(q.ids, q.customers, q.from_day, q.to_day, nullif(q.step, 'all')) r
               group by r.at, r.bucket) a)
    is distinct from (select array_agg(r order by r.at, r.bucket) from pg_temp.truth(q.ids, q.customers, q.from_day, q.to_day, q.step) r)
$$;
select cmp_ok((select count(*) from asked q where exists (select from pg_temp.truth(q.ids, q.customers, q.from_day, q.to_day, q.step))), '>', 100::bigint,
  '(many of these filters match something)');
select cmp_ok((select count(*) from task_deltas), '>', 0::bigint, '(not all is folded)');
select is(pg_temp.wrong('any', 60), 0::bigint, 'half of it folded, all is as the tasks say');
select fold_rollups() \gset
select is(pg_temp.wrong('any', 60), 0::bigint, 'folded, too');
select isnt((select count(*) from response_histogram h where h.by_month and h.agent_id = 0 and h.customer is null), 0::bigint, '(months are there)');
insert into asked
select a.ids, c.customers, _day(_now()) - n, _day(_now()) - n + 6, 'hour'
from generate_series(6, 33, 9) n cross join (values (_agent_ids(null)), (_agent_ids('{"_r b"}'))) a(ids) cross join (values (null::text[]), ('{acme}'), ('{acme,globex}')) c(customers);
select is(pg_temp.wrong('hour', 20), 0::bigint, 'so are the hours of the last 35 days');

-- what leaves a group leaves all of them
select count(*) from reprocess_tasks(array(select t.id from tasks t order by t.id limit 5), actor => 'ops') \gset
select advance('2 days') \gset
select p.tasks as purged from purge_tasks('20 days', 20, completed => true) p \gset
select cmp_ok(:purged, '>', 0, '(some are purged)');
select is(pg_temp.wrong('any', 60), 0::bigint, 'what was purged counts for ever');
set session authorization test_reader;
select throws_ok($$select lakequeue._responses('{}', null, null, null)$$, '42501', null, 'it is internal');

select * from finish();
rollback;
