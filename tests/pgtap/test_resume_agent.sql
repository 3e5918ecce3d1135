-- Resuming lets an agent claim again; where nothing is paused it leaves no trace.
begin;
select plan(14);

select set_person('_ra ann@example.org', 'operator'), set_person('_ra vic@example.org', 'viewer');
select configure_agent('_ra a'), enqueue_task('_ra a', '/1');
create temporary table task as select enqueue_task('_ra a', '/2') as id;
create function pg_temp.events() returns bigint language sql as
$$ select count(*) from lakequeue.task_events e where e.kind = 'agent_resumed' and e.agent_id = (lakequeue._agent('_ra a')).id $$;
select pause_agent('_ra a', 'x');
select is((select count(*) from dequeue_tasks('_ra worker', 10, array['_ra a'])), 0::bigint, 'a paused agent claims nothing');

set session authorization test_web;
select throws_ok($$select resume_agent('_ra a', 'x', '_ra vic@example.org')$$, 'LQ403', null, 'a viewer may not resume it');
select throws_ok($$select resume_agent('_ra a')$$, 'LQ403', null, 'nor the web process for nobody');
set session authorization test_app;
select throws_ok($$select resume_agent('_ra a')$$, '42501', null, 'nor an application');
set session authorization test_operator;
select throws_ok($$select resume_agent('_ra b')$$, 'LQ404', null, 'an unknown agent is refused');
select throws_ok($$select resume_agent(null)$$, 'LQ404', null, 'so is null');
set session authorization test_owner;
select is((select count(*) from dequeue_tasks('_ra worker', 10, array['_ra a'])), 0::bigint, 'it is still paused');
select is(pg_temp.events(), 0::bigint, 'and there is no event');

set session authorization test_web;
select lives_ok($$select resume_agent('_ra a', 'the bill is paid', '_ra ann@example.org')$$, 'an operator may, through the web process');
set session authorization test_owner;
select results_eq(
  $$select paused_at, paused_by, pause_reason from agents where name = '_ra a'$$,
  $$values (null::timestamptz, null::text, null::text)$$, 'nothing of the pause is left');
select is((select count(*) from dequeue_tasks('_ra worker', 10, array['_ra a'])), 2::bigint, 'it claims again');
select results_eq(
  $$select actor, session_actor, reason from task_events where kind = 'agent_resumed' and agent_id = (_agent('_ra a')).id$$,
  $$values ('_ra ann@example.org', 'test_web', 'the bill is paid')$$, 'the event says who and why');

set session authorization test_operator;
select lives_ok($$select resume_agent('_ra a')$$, 'resuming what is not paused is no error');
set session authorization test_owner;
select is(pg_temp.events(), 1::bigint, 'but no event either');

select * from finish();
rollback;
