-- Notes the runs that were submitted for attempts, and when. Also for an attempt that has ended meanwhile, so that a paid run is
-- never lost from the books. A worker of local runs, which no run key finds again, notes a run before it starts it, and
-- starts only what is recorded or duplicate: one attempt then never has two, whoever stands still or adopts in between.
--
-- attempts, run_ids: arrays of the same length.
-- Returns a row per attempt, in order: recorded; duplicate (that run was noted already); conflict (another run is
--   noted, which stays); unknown (no such attempt).
-- Errors: LQ428 not READ COMMITTED; LQ400 arrays of different lengths, or a null run id.
-- Locks: the tasks' rows in id order, then the attempts.
create or replace function lakequeue.record_runs(attempts bigint[], run_ids bigint[])
returns table (attempt_id bigint, answer text)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_recorded bigint[];
  v_finished boolean[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('record_runs');
  end if;
  if cardinality(attempts) is distinct from cardinality(run_ids) or array_position(run_ids, null) is not null then
    raise exception using errcode = 'LQ400', message = 'record_runs needs one run id per attempt',
      hint = 'Pass two arrays of the same length.';
  end if;
  v_finished := array(
    select t.finished_at is not null
    from tasks t
    where t.id = any(array(select a.task_id from task_attempts a where a.id = any(attempts)))
    order by t.id
    for no key update);

  with recorded as (
    update task_attempts a
    set run_id = u.run_id, submitted_at = _now()
    from (
      select distinct on (p.attempt) p.attempt, p.run_id
      from unnest(attempts, run_ids) with ordinality p(attempt, run_id, number)
      order by p.attempt, p.number
    ) u
    where a.id = any(array[u.attempt]) and a.run_id is null
    returning a.id
  )
  select coalesce(array_agg(r.id), '{}') into v_recorded from recorded r;
  if true = any(v_finished) then  -- a run that is noted after its task finished: there is one more to bill
    perform _note_change(t.task, t.task, u.used[:10] || (u.used[11] - r.runs), u.used)
    from (  -- LIMIT keeps these probes, as below
      select a.task_id, count(*) as runs
      from unnest(v_recorded) k(attempt)
      cross join lateral (select x.task_id from task_attempts x where x.id = k.attempt and x.job_id is not null limit 1) a
      group by a.task_id) r
    cross join lateral (select x as task from tasks x where x.id = r.task_id and x.finished_at is not null limit 1) t
    cross join lateral (select _task_usage(r.task_id) as used offset 0) u;
  end if;

  return query
    select u.attempt,
           case when a.id is null then 'unknown'
                when a.run_id is distinct from u.run_id then 'conflict'
                when a.id = any(v_recorded) then 'recorded'
                else 'duplicate' end
    from unnest(attempts, run_ids) with ordinality u(attempt, run_id, number)
    left join lateral (  -- LIMIT keeps it a probe, whatever the table was when this was planned
      select x.id, x.run_id from task_attempts x where x.id = u.attempt limit 1) a on true
    order by u.number;
end $$;

comment on function lakequeue.record_runs(bigint[], bigint[]) is 'Notes the runs that were submitted for attempts.';
