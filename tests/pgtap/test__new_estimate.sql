-- The estimate of a document that is to be enqueued: what is too much stays too much, so that the table refuses it
-- (test_enqueue_task.sql).
begin;
select plan(3);
select configure_agent('_ne', tokens_per_task => 100, tokens_per_page => 10, estimate_factor => 2);
select is(_new_estimate(_agent('_ne'), 3, null), 260::bigint, 'as _estimate');
select is(_new_estimate(_agent('_ne'), null, 9000000000000000), 3600000000200, 'but never less than it is');
set session authorization test_app;
select throws_ok($$select lakequeue._new_estimate(null, 1, 1)$$, '42501', null, 'it is internal: an app may not call it');
set session authorization test_owner;
select * from finish();
rollback;
