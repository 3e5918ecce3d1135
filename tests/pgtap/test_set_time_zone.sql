-- The reporting time zone: an operator's choice, until the first task is finished.
begin;
\ir scenarios.sql
select plan(28);

create function pg_temp.zone() returns text language sql as $$ select i.time_zone from lakequeue.installation i $$;
select is(pg_temp.zone(), 'UTC', 'it is UTC to begin with');
select says_and_changes_nothing('select set_time_zone(''UTC'')', '', 'which changes nothing');
select refused(format('select set_time_zone(%s)', z), 'LQ400', z)
from unnest(array['null', '''''', '''Mars/Olympus''', '''europe/berlin''', ''' UTC''', '''UTC+3''', '''CEST''', '''+02''']) z;
select is(pg_temp.zone(), 'UTC', 'what is refused changes nothing');

-- what waits and what runs has no day yet
select start() \gset
select fold_rollups() \gset
select new_task() as waiting \gset
set session authorization test_operator;
select set_time_zone('Asia/Tokyo', 'our office is there', 'ann');
set session authorization test_owner;
select is(pg_temp.zone(), 'Asia/Tokyo', 'an operator sets another one');
select row_is(to_jsonb(e), '{"actor": "test_operator", "session_actor": "test_operator", "reason": "our office is there",
                             "detail": {"from": "UTC", "to": "Asia/Tokyo"}}', 'the event says who, why, from what and to what')
from (select null) one left join task_events e on e.kind = 'time_zone_set';
select is((select r.time_zone from reporting_time() r), 'Asia/Tokyo', 'pages ask for it');
select says_and_changes_nothing('select set_time_zone(''Asia/Tokyo'', ''again'')', '', 'the same again is no event');
select set_time_zone('America/New_York'), set_time_zone('Asia/Tokyo');
select is((select count(*) from task_events e where e.kind = 'time_zone_set'), 3::bigint, 'as long as nothing is finished it may change');

-- the first task that is finished
select set_clock('2026-03-01 20:00+00');
select cancel_task(:waiting) \gset
select results_eq('select d.to_day from task_deltas d where d.to_day is not null', $$values (date '2026-03-02')$$, 'a task is finished by its day');
select refused('select set_time_zone(''UTC'')', 'LQ409', 'after that it stays');
select says_and_changes_nothing('select set_time_zone(''Asia/Tokyo'')', '', 'the same is still no change');
select fold_rollups() \gset
select refused('select set_time_zone(''UTC'')', 'LQ409', 'also when that is folded');
select retry_task(:waiting) \gset
select refused('select set_time_zone(''UTC'')', 'LQ409', 'and when the task waits again');
select is(pg_temp.zone(), 'Asia/Tokyo', 'what is refused changes nothing');

set session authorization test_web;
select throws_ok($$select lakequeue.set_time_zone('UTC', actor => 'ops')$$, '42501', null, 'the web process may not, whoever it speaks for');
set session authorization test_owner;
select not_for(login, 'select lakequeue.set_time_zone(''UTC'')')
from unnest(array['test_app', 'test_worker', 'test_agent', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
