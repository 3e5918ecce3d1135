-- Roles and schema. Roles belong to the whole server: they are made only where they are absent (a managed
-- platform may hand them over ready-made to a login without CREATEROLE) and no revert drops them.

do $$
declare
  v_role text;
begin
  foreach v_role in array array['owner', 'app', 'web', 'worker', 'agent', 'operator', 'reader'] loop
    if to_regrole('lakequeue_' || v_role) is null then
      begin
        execute format('create role lakequeue_%s nologin', v_role);
      exception when duplicate_object or unique_violation then
        null; -- another database of this server migrated at the same moment
      end;
    end if;
  end loop;

  -- The migrator acts as the owner. From PostgreSQL 16 whoever creates a role gets ADMIN on it, not SET or INHERIT.
  if current_setting('server_version_num')::integer >= 160000 then
    if not (pg_has_role('lakequeue_owner', 'SET') and pg_has_role('lakequeue_owner', 'USAGE')) then
      execute 'grant lakequeue_owner to current_user with set true, inherit true';
    end if;
  elsif not pg_has_role('lakequeue_owner', 'USAGE') then
    grant lakequeue_owner to current_user;
  end if;
end $$;

create schema lakequeue authorization lakequeue_owner;

set local role lakequeue_owner;

comment on schema lakequeue is 'Lakequeue: a queue, scheduler, rate limiter and ledger for long-running AI-agent tasks.';

-- Only the form without IN SCHEMA takes EXECUTE away from PUBLIC.
alter default privileges for role lakequeue_owner revoke execute on functions from public;

grant usage on schema lakequeue
  to lakequeue_app, lakequeue_web, lakequeue_worker, lakequeue_agent, lakequeue_operator, lakequeue_reader;

create type lakequeue.task_status as enum ('enqueued', 'processing', 'completed', 'failed', 'cancelled');
comment on type lakequeue.task_status is
  'State of a task: enqueued, processing; final are completed, failed and cancelled.';

create type lakequeue.attempt_status as enum
  ('running', 'succeeded', 'failed', 'expired', 'rate_limited', 'cancelled', 'superseded');
comment on type lakequeue.attempt_status is
  'State of an attempt: running, or how it ended. expired: its lease ran out; superseded: another attempt completed the task.';
