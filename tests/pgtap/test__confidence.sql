-- Confidences as they are stored: what is too small for a real is 0, null stays unknown.
begin;
select plan(3);
select results_eq($$select lakequeue._confidence(v) from unnest(array[0, 1, 0.95, 1e-30, 1e-46, 1e-300, null]) v$$,
  $$values (0::real), (1), (0.95), (1e-30), (0), (0), (null)$$, 'as they are, or 0');
select is(_confidence(v::double precision), v::real, 'what is out of range is refused elsewhere: ' || v) from unnest(array['2']) v;
set session authorization test_worker;
select throws_ok($$select lakequeue._confidence(0.5)$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
