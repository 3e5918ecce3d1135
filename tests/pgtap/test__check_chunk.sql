-- _check_chunk: an action takes 1,000 tasks and no more; with one too many it does nothing at all.
begin;
select plan(5);

select lives_ok('select _check_chunk(array(select generate_series(1, 1000)))', '1,000 are not too many');
select lives_ok('select _check_chunk(null)', 'none are not too many');

select configure_agent('a');
select enqueue_task('a', '/1.pdf') as task \gset
select throws_ok(
  format('select %s(array_fill(%s::bigint, array[1001]))', action, :task), 'LQ400', null, action || ' refuses 1,001')
from unnest(array['cancel_tasks', 'retry_tasks']) action;
select results_eq(format('select status::text from tasks where id = %s', :task), array['enqueued'], 'and has cancelled none');

select * from finish();
rollback;
