-- Who acts: a person is believed only from the web process and only if known as an operator; every other login acts as
-- itself, whatever it says. Seen through pause_agent, since _actor itself is internal.
begin;
select plan(23);

select configure_agent('_actor parser');
select set_person('ann@example.org', 'operator');
select set_person('vic@example.org', 'viewer');
create function pg_temp.paused_by() returns text language sql as
$$ select a.paused_by from lakequeue.agents a where a.name = '_actor parser' $$;

set session authorization test_web;
select lives_ok($$select pause_agent('_actor parser', 'x', 'ann@example.org')$$, 'the web process speaks for an operator');
set session authorization test_owner;
select is(pg_temp.paused_by(), 'ann@example.org', 'who then is the one who acts');
select results_eq(
  $$select actor, session_actor from task_events where kind = 'agent_paused' and agent_id = (_agent('_actor parser')).id$$,
  $$values ('ann@example.org', 'test_web')$$, 'the event has both, person and login');

set session authorization test_web;
select throws_ok($$select resume_agent('_actor parser', 'x', 'vic@example.org')$$, 'LQ403', null, 'a viewer may not act');
select throws_ok($$select resume_agent('_actor parser', 'x', 'stranger@example.org')$$, 'LQ403', null, 'nor somebody unknown');
select throws_ok($$select resume_agent('_actor parser', 'x', null)$$, 'LQ403', null, 'nor the web process for nobody');
select throws_ok($$select resume_agent('_actor parser', 'x', '')$$, 'LQ403', null, 'nor for an empty name');
select throws_ok($$select resume_agent('_actor parser', 'x', 'ANN@example.org')$$, 'LQ403', null, 'names are compared exactly');
select throws_ok($$select resume_agent('_actor parser', 'x', 'test_operator')$$, 'LQ403', null, 'the name of a login is no person');
set session authorization test_owner;
select is(pg_temp.paused_by(), 'ann@example.org', 'none of these resumed it');

select set_person('ann@example.org', 'viewer');
set session authorization test_web;
select throws_ok($$select resume_agent('_actor parser', 'x', 'ann@example.org')$$, 'LQ403', null,
  'an operator who became a viewer may not act any more');
set session authorization test_owner;
select set_person('ann@example.org', null);
set session authorization test_web;
select throws_ok($$select resume_agent('_actor parser', 'x', 'ann@example.org')$$, 'LQ403', null,
  'nor one who was taken off the list');

set session authorization test_operator;
select lives_ok($$select resume_agent('_actor parser')$$, 'a login of the operator role acts without naming anybody');
select lives_ok($$select pause_agent('_actor parser', 'x', 'boss@example.org')$$, 'and may name whom it likes');
set session authorization test_owner;
select is(pg_temp.paused_by(), 'test_operator', 'but acts as itself');

-- A login that is both.
set session authorization default;
create role actor_both login in role lakequeue_operator, lakequeue_web;
set session authorization actor_both;
select lakequeue.resume_agent('_actor parser');
select lives_ok($$select lakequeue.pause_agent('_actor parser', 'x', 'cho@example.org')$$,
  'a login that is operator and web process speaks for anybody');
set session authorization test_owner;
select is(pg_temp.paused_by(), 'cho@example.org', 'who is believed');
set session authorization actor_both;
select lakequeue.resume_agent('_actor parser');
select lives_ok($$select lakequeue.pause_agent('_actor parser', 'x')$$, 'or for itself');
set session authorization test_owner;
select is(pg_temp.paused_by(), 'actor_both', 'as which it then acts');

-- The owner needs no role to call what it owns.
select lives_ok($$select resume_agent('_actor parser', 'x')$$, 'the owner acts without naming anybody');
select lives_ok($$select pause_agent('_actor parser', 'x', 'boss@example.org')$$, 'and may name whom it likes');
select is(pg_temp.paused_by(), 'test_owner', 'but acts as itself');

set session authorization test_web;
select throws_ok($$select lakequeue._actor('ann@example.org')$$, '42501', null, 'it is internal: the web process may not call it');
set session authorization test_owner;

select * from finish();
rollback;
