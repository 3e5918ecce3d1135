-- The task of an attempt, if the token is the attempt's own. Errors: LQ404 unknown attempt; LQ401 wrong token.
create or replace function lakequeue._check_token(attempt bigint, token text)
returns bigint
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_task_id bigint;
  v_run_key uuid;
  v_secret bytea;
begin
  select a.task_id, a.run_key, i.secret into v_task_id, v_run_key, v_secret
  from task_attempts a cross join installation i where a.id = attempt;
  if not found then
    raise exception using errcode = 'LQ404',
      message = format('there is no attempt %s', coalesce(attempt::text, 'null')),
      hint = 'Pass the attempt_id that dequeue_tasks returned, from this installation.';
  end if;
  if not _token_fits(attempt, v_run_key, token, v_secret) then
    raise exception using errcode = 'LQ401',
      message = format('wrong callback token for attempt %s', attempt),
      hint = 'Pass the callback_token that dequeue_tasks returned with this attempt.';
  end if;
  return v_task_id;
end $$;

comment on function lakequeue._check_token(bigint, text) is 'The task of an attempt, if the token is the right one.';
