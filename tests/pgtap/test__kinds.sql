-- The kinds of limits, in the one order that arrays of amounts follow.
begin;
select plan(2);
select is(_kinds(), array['tasks', 'tokens', 'input_tokens', 'output_tokens', 'requests'], 'places, then what is limited per minute');
set session authorization test_worker;
select throws_ok('select lakequeue._kinds()', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
