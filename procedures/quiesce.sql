-- Makes a copy of an installation (a branch, a clone, a restored dump) one that acts for itself, so that nothing of the
-- original is submitted, cancelled, called back, settled or billed from it:
-- - attempts that are open, or whose runs may be alive, are closed: those runs are the original's and are let go, not
--   cancelled. Their tasks go back to the queue, without a failure (those asked to cancel become cancelled);
-- - every agent is paused and loses its job, which is the original's. Tasks stay as they were, to be looked at, and
--   run only where somebody wants it: configure_agent(job_id) for a job of the copy's own, or none for local runs, then
--   resume_agent;
-- - the installation gets another id and secret, and what was open another run key: tokens and idempotency keys that
--   the original has handed out are worth nothing here;
-- - attempts up to now are inherited: their traces and bills are looked up no more;
-- - workers are dismissed: one that is connected nevertheless ends at its next heartbeat, with what it was about to submit.
-- All or nothing, once: a second call finds nothing to do. A copy of a copy is another copy.
--
-- reason: why. actor: who; believed only from a login that is web process and operator in one, else it is the login.
-- lakebase_endpoint: the copy's own, without which a Lakebase branch looks like its parent. is_copy: the caller knows that
-- this is a copy where the database cannot (the files of a server were copied, or no worker had noted where the original
-- lives).
-- Returns what was done: quiesced, or quiesced already.
-- Errors: LQ428 not READ COMMITTED; LQ409 this is the installation itself, or nobody can tell; LQ400 no reason, or no
--   such endpoint; LQ403 not permitted.
-- Locks: the one of changes to agents and every endpoint's throttle lock, by id, so that no dequeue under way claims
--   after this; the row of installation; that of a fetch of costs; tasks in id order; their attempts.
create or replace function lakequeue.quiesce(
  reason text, actor text default null, lakebase_endpoint text default null, is_copy boolean default false)
returns table (
  outcome text, attempts_closed integer, runs_let_go integer, tasks_requeued integer, agents_paused integer,
  workers_dismissed integer)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_actor text := _actor(actor);
  v_here text := _here(lakebase_endpoint);
  v_installation installation;
  v_now timestamptz;
  v_task_ids bigint[];
  v_attempt_ids bigint[];
  v_task tasks;
  v_after tasks;
  v_attempt task_attempts;
  v_used numeric[];
  v_jobs jsonb := (select jsonb_object_agg(g.name, g.job_id) filter (where g.job_id is not null) from agents g);
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('quiesce');
  end if;
  if _clean_text(reason, 1) is null then
    raise exception using errcode = 'LQ400', message = 'quiesce needs a reason', hint = 'It stays in the event and with every agent.';
  end if;
  attempts_closed := 0; runs_let_go := 0; tasks_requeued := 0; agents_paused := 0; workers_dismissed := 0;
  perform pg_advisory_xact_lock(_lock_class(), -4);
  perform pg_advisory_xact_lock(_lock_class(), e.id) from (select m.id from model_endpoints m order by m.id) e;
  select i.* into v_installation from installation i for no key update;
  if not coalesce(is_copy, false) then
    if v_installation.home = v_here and v_installation.quiesced_at is not null then
      outcome := 'quiesced already';
      return next;
      return;
    elsif coalesce(v_installation.home = v_here, true) then
      raise exception using errcode = 'LQ409',
        message = case when v_installation.home is null then 'nobody has noted yet where the installation lives, so this may be it'
                       else format('this is the installation itself, not a copy: it lives at (%s)', v_here) end,
        hint = 'Its running work would be lost. In a Lakebase branch pass lakebase_endpoint; in a copy that the database '
               'cannot tell from the original, is_copy => true.';
    end if;
  end if;

  v_now := _now();
  update compute_fetches f
  set state = 'failed', ended_at = v_now, problem = 'the original of this copy asks billing'
  where f.state = 'running';
  v_task_ids := array(
    select t.id
    from tasks t
    where t.id = any(array(
      select a.task_id from model_endpoints e join task_attempts a on a.endpoint_id = e.id and a.run_ended_at is null))
    order by t.id
    for no key update);
  v_attempt_ids := array(select a.id from task_attempts a where a.task_id = any(v_task_ids) and a.run_ended_at is null);
  for v_task in
    select t.* from tasks t where t.id = any(v_task_ids) and t.status = 'processing' order by t.id
  loop
    select a.* into strict v_attempt from task_attempts a where a.task_id = v_task.id and a.status = 'running';
    v_used := _task_usage(v_task.id);
    v_after := _end_attempt(v_task, v_attempt, 'cancelled', false, 'quiesced', 'its run belongs to the original of this copy',
                            null, given_back => true);
    perform _note_change(v_task, v_after, v_used);
    attempts_closed := attempts_closed + 1;
    tasks_requeued := tasks_requeued + (v_after.status = 'enqueued')::integer;
  end loop;
  update task_attempts a
  set run_key = gen_random_uuid(), run_ended_at = coalesce(a.run_ended_at, v_now)
  where a.id = any(v_attempt_ids);
  runs_let_go := (select count(*) from task_attempts a where a.id = any(v_attempt_ids) and a.run_id is not null);
  perform _close_calls(v_attempt_ids);

  update agents a
  set job_id = null, paused_at = coalesce(a.paused_at, v_now), paused_by = v_actor,
      pause_reason = _clean_text('quiesced copy: ' || reason, 4000);
  get diagnostics agents_paused = row_count;
  workers_dismissed := (select count(*) from workers w where w.stopped_at is null);
  update workers w set stopped_at = coalesce(w.stopped_at, v_now), dismissed = true;
  update installation i
  set id = gen_random_uuid(), secret = sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
      home = v_here, quiesced_at = v_now,
      inherited_attempts = coalesce((select max(a.id) from task_attempts a), 0);
  perform _log_event('quiesced', actor => v_actor, reason => reason, detail => jsonb_build_object(
    'original', v_installation.id, 'from', v_installation.home, 'to', v_here, 'jobs', v_jobs,
    'attempts_closed', attempts_closed, 'runs_let_go', runs_let_go));
  perform _nudge('lakequeue_changes');
  outcome := 'quiesced';
  return next;
end $$;

comment on function lakequeue.quiesce(text, text, text, boolean) is
  'Makes a copy one that acts for itself: nothing of the original is submitted, called back, settled or billed from it.';
