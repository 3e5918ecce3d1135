-- How much of each kind of limit a model call takes.
begin;
select plan(3);
select results_eq(
  $$select k.kind, _call_amount(k.kind, 70, 30) from unnest(_kinds()) with ordinality k(kind, n) order by k.n$$,
  $$values ('tasks', 0::bigint), ('tokens', 100), ('input_tokens', 70), ('output_tokens', 30), ('requests', 1)$$,
  'tokens in all, of the prompt, of the answer, and one request; no place');
select is(_call_amount('requests', 0, 0), 1::bigint, 'also a call without tokens is a request');
set session authorization test_agent;
select throws_ok($$select lakequeue._call_amount('tokens', 1, 1)$$, '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;
select * from finish();
rollback;
