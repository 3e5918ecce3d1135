-- Appends to task_events. No locks.
--
-- kind: what happened, a word of db/README.md's list. task, attempt, agent: ids of what it is about. actor: who did it, by
-- default the login. reason: why. detail: further facts.
create or replace function lakequeue._log_event(
  kind text, task bigint default null, attempt bigint default null, agent integer default null,
  actor text default null, reason text default null, detail jsonb default null)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  insert into task_events (at, kind, task_id, attempt_id, agent_id, actor, session_actor, reason, detail)
  values (_now(), kind, task, attempt, agent, coalesce(actor, session_user), session_user,
          _clean_text(reason, 4000), detail);
end $$;

comment on function lakequeue._log_event(text, bigint, bigint, integer, text, text, jsonb) is
  'Appends an event: what a person did, or a transition out of the ordinary.';
