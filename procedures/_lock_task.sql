-- The task of an attempt, locked for a report on it, if the token is the attempt's own: one statement for what _check_token
-- and a lock would do in two. Errors: LQ404 unknown attempt, or purged while this waited; LQ401 wrong token.
-- Locks: the task's row; none if the token is wrong.
create or replace function lakequeue._lock_task(attempt bigint, token text)
returns lakequeue.tasks
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_task tasks;
begin
  select t.* into v_task
  from tasks t
  where t.id = (
    select a.task_id from task_attempts a cross join installation i
    where a.id = attempt and _token_fits(a.id, a.run_key, token, i.secret))
  for no key update;
  if not found then
    perform _check_token(attempt, token);  -- says what is wrong
  end if;
  return v_task;
end $$;

comment on function lakequeue._lock_task(bigint, text) is 'The task of an attempt, locked, if the token is the right one.';
