-- The estimate of a document that is to be enqueued: impossible numbers are refused (test_estimate_tokens.sql has the rest).
begin;
select plan(4);
select configure_agent('_ne', tokens_per_task => 100, tokens_per_page => 10, estimate_factor => 2);
select is(_new_estimate(_agent('_ne'), 3, null), 260::bigint, 'as _estimate');
select throws_ok($$select _new_estimate(_agent('_ne'), -1, null)$$, 'LQ400', null, 'negative pages are refused');
select throws_ok($$select _new_estimate(_agent('_ne'), null, 9223372036854775807)$$, 'LQ400', null, 'so is what no column holds');
set session authorization test_app;
select throws_ok($$select lakequeue._new_estimate(null, 1, 1)$$, '42501', null, 'it is internal: an app may not call it');
set session authorization test_owner;
select * from finish();
rollback;
