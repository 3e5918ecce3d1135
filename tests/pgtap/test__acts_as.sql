-- The caller's roles, seen from inside a SECURITY DEFINER function: by its login, or by the role that it has set. A login that
-- does not inherit the web process's role, but sets it, has to name an operator like any other.
begin;
select plan(13);

set session authorization default;
create role acts_as_web login noinherit in role lakequeue_web;
create role acts_as_worker login noinherit in role lakequeue_worker;
create function test.acts_as(variadic roles text[]) returns boolean language sql security definer
as $$ select bool_or(lakequeue._acts_as(u.role::name)) from unnest(roles) u(role) $$;
alter function test.acts_as(text[]) owner to test_owner;
set session authorization test_owner;
select configure_agent('_acts_as parser');

set session authorization test_web;
select ok(test.acts_as('lakequeue_web'), 'a login has the role that it inherits');
select ok(not test.acts_as('lakequeue_worker'), 'and no other');
select ok(test.acts_as('lakequeue_worker', 'lakequeue_web'), 'one of several is enough');
select ok(test.acts_as('test_web'), 'it is itself');
set session authorization test_stranger;
select ok(not test.acts_as('lakequeue_owner', 'lakequeue_app', 'lakequeue_web', 'lakequeue_worker', 'lakequeue_agent', 'lakequeue_operator',
                           'lakequeue_reader'), 'a stranger has none');
set session authorization test_owner;
select ok(test.acts_as('lakequeue_owner') and not test.acts_as('lakequeue_web', 'lakequeue_operator'), 'the owner is the owner');

set session authorization acts_as_web;
select ok(not test.acts_as('lakequeue_web'), 'a role that is not inherited does not count');
select throws_ok($$select lakequeue.pause_agent('_acts_as parser', 'x')$$, '42501', null, 'nor does it give anything');
set role lakequeue_web;
select ok(test.acts_as('lakequeue_web'), 'until it is set');
select throws_ok($$select lakequeue.pause_agent('_acts_as parser', 'x')$$, 'LQ403', null, 'then an operator must be named, as by every web process');
set session authorization acts_as_worker;
set role lakequeue_worker;
select lives_ok($$select lakequeue.extend_leases(array[-1::bigint])$$, 'a worker that sets its role needs no tokens');

set session authorization test_owner;
set role lakequeue_owner;
select ok(test.acts_as('lakequeue_owner'), 'the owner''s role itself');
reset role;

set session authorization test_web;
select throws_ok($$select lakequeue._acts_as('lakequeue_web')$$, '42501', null, 'it is internal');
set session authorization test_owner;

select * from finish();
rollback;
