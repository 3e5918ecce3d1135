-- Only an attempt's own token is accepted; unknown attempts and wrong tokens have SQLSTATEs of their own (rule 8).
begin;
select plan(14);

select configure_agent('_check_token parser');
select enqueue_task('_check_token parser', '/a.pdf'), enqueue_task('_check_token parser', '/b.pdf');
create temporary table claim as
select row_number() over () as n, c.* from dequeue_tasks('_check_token worker', agents => array['_check_token parser']) c;
create function pg_temp.task_of(n integer, token text) returns bigint language sql as
$$ select lakequeue._check_token(c.attempt_id, task_of.token) from pg_temp.claim c where c.n = task_of.n $$;

select is(pg_temp.task_of(1, (select callback_token from claim where n = 1)), (select task_id from claim where n = 1),
  'the right token gives the task');
select throws_ok($$select pg_temp.task_of(1, (select callback_token from claim where n = 2))$$, 'LQ401', null,
  'the token of another attempt is wrong');
select throws_ok($$select pg_temp.task_of(1, 'x')$$, 'LQ401', null, 'so is any other text');
select throws_ok($$select pg_temp.task_of(1, '')$$, 'LQ401', null, 'an empty one');
select throws_ok($$select pg_temp.task_of(1, null)$$, 'LQ401', null, 'and none at all');
select throws_ok($$select pg_temp.task_of(1, (select upper(callback_token) from claim where n = 1))$$, 'LQ401', null,
  'the right one in capitals');
select throws_ok($$select pg_temp.task_of(1, (select left(callback_token, 63) from claim where n = 1))$$, 'LQ401', null,
  'the right one cut short');
select throws_ok($$select pg_temp.task_of(1, (select callback_token || ' ' from claim where n = 1))$$, 'LQ401', null,
  'or with a blank behind it');
select throws_ok($$select pg_temp.task_of(1, (select run_key::text from claim where n = 1))$$, 'LQ401', null,
  'the run key is no token');
select throws_ok($$select _check_token(-1, 'x')$$, 'LQ404', 'there is no attempt -1', 'an unknown attempt is LQ404');
select throws_ok($$select _check_token(null, 'x')$$, 'LQ404', null, 'so is null');
select throws_ok($$select _check_token(9223372036854775807, null)$$, 'LQ404', null, 'before any look at the token');

update installation set secret = sha256('another');
select throws_ok($$select pg_temp.task_of(1, (select callback_token from claim where n = 1))$$, 'LQ401', null,
  'after the secret was renewed the old token is wrong');

set session authorization test_agent;
select throws_ok($$select lakequeue._check_token(1, 'x')$$, '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
