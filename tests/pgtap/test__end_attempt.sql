-- Rules 3, 7 and 11: what becomes of a task whose attempt ends in any way but success, what counts against which
-- limit, and when it may be tried again.
begin;
\ir scenarios.sql
select plan(71);

-- Ends a running attempt of a task with these counts; max_attempts is 3, max_rate_limited 2.
create function pg_temp.ended(
  how text, permanent boolean default false, failures integer default 0, rate_limited integer default 0,
  cancel boolean default false, retry_after interval default null, cooldown interval default null,
  error_class text default 'boom', error text default 'it broke', out attempt bigint, out returned lakequeue.tasks)
language plpgsql
as $$
begin
  attempt := start();
  perform configure_agent(agent_of(task_of(attempt)), max_rate_limited => 2);
  update tasks t
  set failures = ended.failures, rate_limited = ended.rate_limited, cancel_requested_at = case when cancel then _now() end
  where t.id = task_of(attempt);
  if cooldown is not null then
    perform report_rate_limit(attempt, token(attempt), cooldown);
  end if;
  returned := _end_attempt(t, a, how::attempt_status, permanent, ended.error_class, ended.error, retry_after)
  from task_attempts a join tasks t on t.id = a.task_id where a.id = ended.attempt;
end $$;

-- --- every way to end x every count ---------------------------------------------------------------

create temporary table ways as
select v.*, e.*
from (values
  -- how, permanent, failures and rate limits before, cancel asked for → status, failures, rate limits, waits
  ('failed', false, 0, 0, false, 'enqueued', 1, 0, true),
  ('failed', false, 1, 0, false, 'enqueued', 2, 0, true),
  ('failed', false, 2, 0, false, 'failed', 3, 0, false),
  ('failed', false, 7, 0, false, 'failed', 8, 0, false),
  ('failed', false, 1, 2, false, 'enqueued', 2, 2, true),
  ('failed', true, 0, 0, false, 'failed', 1, 0, false),
  ('failed', false, 0, 0, true, 'cancelled', 1, 0, false),
  ('failed', true, 2, 0, true, 'cancelled', 3, 0, false),
  ('expired', false, 0, 0, false, 'enqueued', 1, 0, false),
  ('expired', false, 1, 0, false, 'enqueued', 2, 0, false),
  ('expired', false, 2, 0, false, 'failed', 3, 0, false),
  ('expired', false, 2, 0, true, 'cancelled', 3, 0, false),
  ('rate_limited', false, 0, 0, false, 'enqueued', 0, 1, true),
  ('rate_limited', false, 2, 1, false, 'enqueued', 2, 2, true),
  ('rate_limited', false, 0, 2, false, 'failed', 0, 3, false),
  ('rate_limited', false, 2, 0, false, 'enqueued', 2, 1, true),
  ('rate_limited', false, 0, 2, true, 'cancelled', 0, 3, false),
  ('rate_limited', false, 0, 0, true, 'cancelled', 0, 1, false),
  ('cancelled', false, 0, 0, true, 'cancelled', 0, 0, false),
  ('cancelled', false, 2, 2, true, 'cancelled', 2, 2, false),
  ('cancelled', false, 0, 0, false, 'cancelled', 0, 0, false)
) v(how, permanent, had_failures, had_rate_limited, cancel, status, failures, rate_limited, waits)
cross join lateral pg_temp.ended(v.how, v.permanent, v.had_failures, v.had_rate_limited, v.cancel) e;

select task_is(task_of(w.attempt), jsonb_build_object(
         'status', w.status, 'failures', w.failures, 'rate_limited', w.rate_limited, 'attempt_count', 1,
         'locked_by', null, 'lease_expires_at', null, 'error', 'it broke',
         'finished_at', case when w.status <> 'enqueued' then to_jsonb(_now()) end,
         'cancel_requested_at', case when w.cancel then to_jsonb(_now()) end),
       format('%s%s, %s failures and %s rate limits before%s', w.how, case when w.permanent then ' for good' end,
              w.had_failures, w.had_rate_limited, case when w.cancel then ', asked to stop' end))
from ways w;
select is(t.retry_at is not null, w.waits, format('%s, %s: it waits or does not', w.how, w.status))
from ways w join tasks t on t.id = task_of(w.attempt);
select attempt_is(w.attempt, jsonb_build_object('status', w.how, 'ended_at', _now(), 'run_ended_at', _now(),
                                                'error', 'it broke', 'error_class', 'boom', 'reported_at', null),
                  format('%s, %s: the attempt ends, and with it its run', w.how, w.status))
from ways w where (w.had_failures, w.had_rate_limited, w.permanent) = (0, 0, false);
select is(count(*), 21::bigint, 'the task is returned as it is now')
from ways w join tasks t on t.id = task_of(w.attempt) and t = w.returned;

-- --- how long it waits ------------------------------------------------------------------------------

create function pg_temp.wait(
  how text, failures integer default 0, rate_limited integer default 0, retry_after interval default null, cooldown interval default null)
returns interval language sql
as $$
  select (e.returned).retry_at - lakequeue._now()
  from pg_temp.ended(wait.how, false, wait.failures, wait.rate_limited, false, wait.retry_after, wait.cooldown) e
$$;
select ok(pg_temp.wait('failed', 0) between '5 s' and '10 s', 'after the first failure: the base, or half of it');
select ok(pg_temp.wait('failed', 1) between '10 s' and '20 s', 'after the second: twice that');
select ok(pg_temp.wait('failed', 0, 2) between '5 s' and '10 s', 'rate limits do not make failures wait longer');
select ok(pg_temp.wait('rate_limited', 2, 1) between '10 s' and '20 s', 'nor the other way round');
select is(pg_temp.wait('rate_limited', 0, 0, null, '3 min'), interval '3 min', 'a cooldown that is later than the backoff');
select ok(pg_temp.wait('rate_limited', 0, 1, null, '2 s') between '10 s' and '20 s', 'a backoff that is later than the cooldown');
select is(pg_temp.wait('rate_limited', 0, 0, '2 min', '1 min'), interval '2 min', 'a wait asked for that is later than both');
select ok(pg_temp.wait('failed', 0, 0, '2 min', '3 min') between '5 s' and '10 s', 'a failure does not wait for the endpoint');

-- --- what went wrong -----------------------------------------------------------------------------------

create temporary table errors as
select v.*, e.*
from (values
  ('a message and its class', 'failed', 'class', 'why', 'why'),
  ('a class alone', 'failed', 'class', null, 'class'),
  ('neither', 'failed', null, null, 'failed'),
  ('a blank class', 'rate_limited', ' ', null, 'rate_limited'),
  ('a class longer than any word', 'expired', repeat('x', 5000), null, repeat('x', 200)),
  ('it just stopped', 'cancelled', null, null, null)
) v(description, how, class, message, shown)
cross join lateral pg_temp.ended(v.how, error_class => v.class, error => v.message) e;
select is(t.error, e.shown, 'what the task shows: ' || e.description) from errors e join tasks t on t.id = task_of(e.attempt);
select is(array[a.error_class, a.error], array[left(nullif(e.class, ' '), 200), e.message], 'and the attempt: ' || e.description)
from errors e join task_attempts a on a.id = e.attempt;

select not_for('test_worker', 'select lakequeue._end_attempt(null, null, null, null, null, null, null, null)');
select * from finish();
rollback;
