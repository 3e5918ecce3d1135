-- Sets the installation's one reporting time zone, by whose days finished tasks are counted (rule 15); UTC to begin with.
-- Only before the first task is finished: its day is kept in the ledger from then on.
--
-- time_zone: a name as in pg_timezone_names, e.g. Europe/Berlin. reason: why. actor: who; believed only from a login that is
-- web process and operator in one, else it is the login.
-- The same zone again changes nothing.
-- Errors: LQ428 not READ COMMITTED; LQ400 no such time zone; LQ403 not permitted; LQ409 tasks have been finished;
--   55P03 somebody has written to the queue for more than a second without a commit: call again.
-- Locks: the row of installation, then the table of deltas against writers, so that whoever finishes a task has done so
--   before, or does it by the new zone.
create or replace function lakequeue.set_time_zone(time_zone text, reason text default null, actor text default null)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set lock_timeout = '1s'
as $$
declare
  v_actor text := _actor(actor);
  v_before text;
  v_folded_to bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('set_time_zone');
  end if;
  if time_zone is null or not exists (select from pg_timezone_names z where z.name = set_time_zone.time_zone) then
    raise exception using errcode = 'LQ400',
      message = format('%s is no time zone', coalesce('"' || left(time_zone, 100) || '"', 'null')),
      hint = 'There are: select name from pg_timezone_names. Upper and lower case matter.';
  end if;
  select i.time_zone into v_before from installation i for no key update;
  if v_before = set_time_zone.time_zone then
    return;
  end if;
  lock table task_deltas in share mode;
  v_folded_to := _folded_to();
  if exists (select from task_rollups r where r.day is not null)
     or exists (select from task_deltas d where d.id > v_folded_to and (d.from_day is not null or d.to_day is not null)) then
    raise exception using errcode = 'LQ409',
      message = format('tasks have been finished, and are counted by the days of "%s"', v_before),
      hint = 'Another installation can have another time zone: set it there before its first task is finished.';
  end if;
  update installation i set time_zone = set_time_zone.time_zone;
  perform _log_event('time_zone_set', actor => v_actor, reason => reason,
                     detail => jsonb_build_object('from', v_before, 'to', set_time_zone.time_zone));
end $$;

comment on function lakequeue.set_time_zone(text, text, text) is
  'Sets the reporting time zone, before the first task is finished.';
