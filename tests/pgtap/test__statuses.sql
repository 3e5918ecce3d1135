-- The statuses of a filter: all for null, each once, and nothing that is no status.
begin;
select plan(10);

select is(_statuses(null)::text, '{enqueued,processing,completed,failed,cancelled}', 'null means all of them');
select is(_statuses('{}'), '{}'::task_status[], 'none means none');
select is(_statuses(array['failed', 'enqueued'])::text[] @> '{failed,enqueued}', true, 'those asked for are there');
select is(cardinality(_statuses(array['failed', 'enqueued'])), 2, 'and no others');
select is(_statuses(array['failed', 'failed'])::text, '{failed}', 'one named twice counts once');
select throws_ok($$select _statuses(array['failed', 'done'])$$, 'LQ400', null, 'an unknown one is refused');
select throws_ok($$select _statuses(array['Failed'])$$, 'LQ400', null, 'also one in capitals');
select throws_ok($$select _statuses(array[''])$$, 'LQ400', null, 'or empty');
select throws_ok($$select _statuses(array['failed', null])$$, 'LQ400', null, 'null is no status');

set session authorization test_reader;
select throws_ok('select lakequeue._statuses(null)', '42501', null, 'it is internal: a reader may not call it');
set session authorization test_owner;

select * from finish();
rollback;
