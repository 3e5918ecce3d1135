-- It says beforehand what the functions that act will say.
begin;
\ir scenarios.sql
select plan(6);

select set_person('viewer', 'viewer') \gset
set session authorization test_web;
select is(may_operate('ops'), true, 'an operator may');
select is(may_operate('viewer'), false, 'a viewer may not');
select is(may_operate('nobody'), false, 'nor somebody unknown');
select is(may_operate(null), false, 'nor nobody');
set session authorization test_operator;
select is(may_operate(), true, 'an operator''s login acts as itself');
set session authorization test_owner;
select not_for('test_agent', 'select lakequeue.may_operate()');

select * from finish();
rollback;
