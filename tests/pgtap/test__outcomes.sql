-- The answers of an action, one for each task it was given, in that order.
begin;
select plan(5);

select results_eq(
  $$select * from _outcomes(array[7, 5, 7, 8, 9], '{"5": ["done", null], "7": ["skipped", "it is failed"], "9": ["done", "a"], "1": ["done", null]}')$$,
  $$values (7::bigint, 'skipped', 'it is failed'), (5, 'done', null), (7, 'skipped', 'it is failed'),
           (8, 'skipped', 'there is no such task'), (9, 'done', 'a')$$,
  'each task has its outcome, in the order given; one without an outcome does not exist');
select results_eq(
  $$select * from _outcomes(array[null::bigint], '{"5": ["done", null]}')$$,
  $$values (null::bigint, 'skipped', 'there is no such task')$$, 'null is no task');
select is((select count(*) from _outcomes('{}', '{"5": ["done", null]}')), 0::bigint, 'no tasks, no rows');
select is((select count(*) from _outcomes(null, '{}')), 0::bigint, 'neither for null');

set session authorization test_operator;
select throws_ok($$select * from lakequeue._outcomes('{}', '{}')$$, '42501', null, 'it is internal: an operator may not call it');
set session authorization test_owner;

select * from finish();
rollback;
