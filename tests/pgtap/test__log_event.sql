-- Events are appended with time, actor and login, and a reason of any length is cut, not refused.
begin;
select plan(7);

select set_clock('2026-03-01 09:00+00');
select _log_event('_log_event everything', 1, 2, 3, 'ann@example.org', 'because', '{"n": 1}');
select results_eq(
  $$select at, task_id, attempt_id, agent_id, actor, session_actor, reason, detail
    from task_events where kind = '_log_event everything'$$,
  $$values ('2026-03-01 09:00+00'::timestamptz, 1::bigint, 2::bigint, 3, 'ann@example.org', 'test_owner', 'because',
            '{"n": 1}'::jsonb)$$,
  'all that was given is kept, with time and login');
select _log_event('_log_event little');
select results_eq(
  $$select task_id, attempt_id, agent_id, actor, reason, detail from task_events where kind = '_log_event little'$$,
  $$values (null::bigint, null::bigint, null::integer, 'test_owner', null::text, null::jsonb)$$,
  'without an actor it is the login');
select _log_event('_log_event long', reason => repeat('ä', 100000));
select is((select reason from task_events where kind = '_log_event long'), repeat('ä', 4000), 'a long reason is cut');
select _log_event('_log_event blank', reason => E' \n');
select is((select reason from task_events where kind = '_log_event blank'), null, 'a blank one is none');
select throws_ok($$select _log_event('')$$, '23514', null, 'an event without a kind is refused');
select throws_ok($$select _log_event(null)$$, '23502', null, 'also if it is null');

set session authorization test_operator;
select throws_ok($$select _log_event('forged')$$, '42501', null, 'it is internal: nobody writes events by hand');
set session authorization test_owner;

select * from finish();
rollback;
