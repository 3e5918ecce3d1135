-- People: added, changed and taken off; roles other than viewer and operator there are none.
begin;
select plan(21);

create function pg_temp.role_of(identity text) returns text language sql as
$$ select p.role from lakequeue.people p where p.identity = role_of.identity $$;

select set_person('_sp ann@example.org', 'viewer');
select is(pg_temp.role_of('_sp ann@example.org'), 'viewer', 'a person is put on the list');
select set_person('_sp ann@example.org', 'operator');
select is(pg_temp.role_of('_sp ann@example.org'), 'operator', 'their role changes');
select is((select count(*) from people where identity = '_sp ann@example.org'), 1::bigint, 'they stand there once');
select set_person('_sp ben@example.org', 'viewer');
select set_person('_sp ann@example.org', null);
select is(pg_temp.role_of('_sp ann@example.org'), null, 'without a role they are taken off');
select is(pg_temp.role_of('_sp ben@example.org'), 'viewer', 'and nobody else');
select lives_ok($$select set_person('_sp ann@example.org', null)$$, 'again does no harm');
select lives_ok($$select set_person(repeat('ü', 320), 'viewer')$$, 'an identity may have 320 characters');

select throws_ok(format('select set_person(%s)', a), 'LQ400', null, a || ' is refused')
from unnest(array[
  $$null, 'viewer'$$, $$'', 'viewer'$$, $$' ', 'viewer'$$, $$'_sp ben@example.org ', 'operator'$$, $$repeat('x', 321), 'viewer'$$,
  $$'_sp ben@example.org', 'admin'$$, $$'_sp ben@example.org', ''$$, $$'_sp ben@example.org', 'Operator'$$, $$null, null$$]) a;
select is(pg_temp.role_of('_sp ben@example.org'), 'viewer', 'and changes nothing');

set session authorization test_operator;
select lives_ok($$select set_person('_sp cho@example.org', 'operator')$$, 'an operator may do this');
set session authorization test_web;
select throws_ok($$select set_person('_sp ben@example.org', 'operator')$$, '42501', null, 'the web process may not, whoever it speaks for');
set session authorization test_owner;
select is(pg_temp.role_of('_sp cho@example.org'), 'operator', 'what the operator did stands');
select results_eq(
  $$select session_actor, detail from task_events where kind = 'person_set' and detail ->> 'identity' = '_sp cho@example.org'$$,
  $$values ('test_operator', '{"identity": "_sp cho@example.org", "role": "operator"}'::jsonb)$$,
  'and the event says who did it');

select * from finish();
rollback;
