-- make_durable: who may call it. What it is for, tests/race/test_durable.py shows by crashes.
begin;
\ir scenarios.sql
select plan(4);

select lives_ok('select make_durable()', 'the owner may ask');
set session authorization test_worker;
select lives_ok('select make_durable()', 'a worker may ask');
set session authorization test_agent;
select throws_ok('select make_durable()', '42501', null, 'an agent may not');
set session authorization test_web;
select throws_ok('select make_durable()', '42501', null, 'nor may the web process');
set session authorization test_owner;

select * from finish();
rollback;
