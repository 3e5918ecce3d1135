-- The event log page by page equals a sort of all events, under every filter.
begin;
\ir scenarios.sql
select plan(32);

delete from task_events;
do $$
begin
  perform configure_agent('le a'), configure_agent('le b');
  for n in 1..60 loop
    perform _log_event((array['retried', 'rate_limited', 'agent_paused'])[n % 3 + 1], case when n % 3 < 2 then n % 5 end, null,
                       (select a.id from agents a where a.name = 'le ' || substr('ab', n % 2 + 1, 1)), (array['ann', 'bob', 'carl'])[n % 7 % 3 + 1], 'r' || n);
    if n % 4 = 0 then perform advance('9 hours'); end if;
  end loop;
end $$;
create function pg_temp.truth(from_day date, to_day date, kinds text[], actors text[], agents text[], task bigint) returns bigint[]
language sql as $$
  select coalesce(array_agg(e.id order by e.at desc, e.id desc), '{}')
  from lakequeue.task_events e left join lakequeue.agents g on g.id = e.agent_id cross join lakequeue.installation i
  where (truth.kinds is null or e.kind = any(truth.kinds)) and (truth.actors is null or e.actor = any(truth.actors))
    and (truth.agents is null or g.name = any(truth.agents)) and (truth.task is null or e.task_id = truth.task)
    and (from_day is null or (e.at at time zone i.time_zone)::date >= from_day)
    and (to_day is null or (e.at at time zone i.time_zone)::date <= to_day) $$;
create function pg_temp.turned(from_day date, to_day date, kinds text[], actors text[], agents text[], task bigint) returns bigint[]
language plpgsql as $$
declare
  v_all bigint[] := '{}';
  v_at timestamptz;
  v_id bigint;
  v_row record;
  v_found boolean;
begin
  loop
    v_found := false;
    for v_row in select l.* from lakequeue.list_events(from_day, to_day, kinds, actors, agents, task, 7, v_at, v_id) l loop
      v_all := v_all || v_row.event_id;
      v_at := v_row.at; v_id := v_row.event_id; v_found := true;
    end loop;
    exit when not v_found;
  end loop;
  return v_all;
end $$;
create temporary table filters (from_day date, to_day date, kinds text[], actors text[], agents text[], task bigint);
insert into filters values (null, null, null, null, null, null), (null, null, '{retried}', null, null, null), (null, null, '{retried,agent_paused,retried}', null, null, null),
  (null, null, null, '{ann}', null, null), (null, null, null, '{ann,bob}', '{"le a"}', null), (null, null, '{rate_limited}', '{carl}', null, null),
  (null, null, null, null, '{"le b"}', null), (null, null, '{retried}', null, '{"le a"}', null), (null, null, null, null, null, 3),
  (null, null, '{rate_limited}', '{ann}', '{"le a"}', 1), ('2026-01-03', null, null, null, null, null), (null, '2026-01-02', '{retried}', null, null, null),
  ('2026-01-02', '2026-01-03', null, '{bob}', null, null), (null, null, '{}', null, null, null), (null, null, '{nothing}', null, null, null);
update installation set time_zone = 'Asia/Tokyo';
select is(pg_temp.turned(f.from_day, f.to_day, f.kinds, f.actors, f.agents, f.task), pg_temp.truth(f.from_day, f.to_day, f.kinds, f.actors, f.agents, f.task),
  format('pages under %s are the log', f)) from filters f;
select cmp_ok((select count(*) from filters f where pg_temp.truth(f.from_day, f.to_day, f.kinds, f.actors, f.agents, f.task) <> '{}'), '>=', 12::bigint, '(most filters match something)');

select start() as a \gset
select _log_event('lease_expired', task_of(:a), :a, actor => 'w', reason => 'why', detail => '{"n": 1}') \gset
select results_eq('select kind, task_id, attempt_number, agent, actor, login, reason, detail from list_events(kinds => array[''lease_expired''])',
  format('select ''lease_expired'', %s::bigint, 1, null::text, ''w'', ''test_owner'', ''why'', ''{"n": 1}''::jsonb', task_of(:a)), 'a row says who, what and why');
select is((select count(*) from list_events()), 50::bigint, 'a page has 50 unless told otherwise');
select refused(format('select list_events(page_size => %s)', n), 'LQ400', 'a page of ' || n) from unnest(array['null', '0', '1001']) n;
select refused('select list_events(agents => array[''le nobody''])', 'LQ404', 'an unknown agent');
-- Far back in a long log no more is read than at its end.
insert into task_events (at, kind, task_id, agent_id, actor, session_actor)
select timestamptz '2020-01-01 00:00+00' - n * interval '1 minute', 'many', 77, (_agent('le a')).id, 'many', 'many' from generate_series(1, 2500) n;
select cmp_ok(pages(format('select * from list_events(page_size => 10, after_at => %L, after_id => 1, %s)', timestamptz '2020-01-01 00:00+00' - interval '2400 minutes', of)),
              '<=', pages(format('select * from list_events(page_size => 10, after_at => %L, after_id => 1, %s)', timestamptz '2020-01-01 00:00+00' - interval '100 minutes', of)) + 8,
              'no more pages: ' || of)
from unnest(array['kinds => ''{many}''', 'actors => ''{many}''', 'agents => ''{le a}''', 'actors => ''{many}'', kinds => ''{many}''', 'kinds => null']) of;
set session authorization test_reader;
select lives_ok('select lakequeue.list_events()', 'a reader may read it');
select throws_ok('delete from lakequeue.task_events', '42501', null, 'and delete nothing');
set session authorization test_operator;
select throws_ok('update lakequeue.task_events set reason = null', '42501', null, 'nor may an operator change it');
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.list_events()');
select not_for('test_app', 'select lakequeue.list_events()');

select * from finish();
rollback;
