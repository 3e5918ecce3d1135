-- Numbers that come as text: what a bigint holds, from 0 on.
begin;
select plan(5);
select results_eq($$select lakequeue._whole_number(v) from unnest(array['0', '42', '007', '999999999999999999', '9223372036854775807']) v$$,
  $$values (0::bigint), (42), (7), (999999999999999999), (9223372036854775807)$$, 'a number');
select is(_whole_number(v), null, 'too large: ' || v) from unnest(array['9223372036854775808', '10000000000000000000']) v;
select ok((select bool_and(_whole_number(v) is null) from unnest(array['', ' 1', '-1', '+1', '1.0', '1e3', 'x', '0x1', '٣', null]) v), 'no whole number');
set session authorization test_worker;
select throws_ok($$select lakequeue._whole_number('1')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
