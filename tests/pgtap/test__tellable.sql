-- Times within what every client can tell.
begin;
select plan(4);
select is(_tellable('2026-01-01 12:00+00'), '2026-01-01 12:00+00', 'as it is');
select is(_tellable(v::timestamptz), '0001-01-02 00:00+00', v) from unnest(array['-infinity']) v;
select is(_tellable('294276-12-31 00:00+00'), '9999-12-30 00:00+00', 'or as late as it can be told');
set session authorization test_worker;
select throws_ok($$select lakequeue._tellable(now())$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
