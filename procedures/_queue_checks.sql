-- The checks of health that are about the queue: columns as there, the limits as they are below. What they say, and why these limits:
--
-- breaker, failing, no_worker, sweep_errors (rows that could not be swept in the last hour; each is passed over for a minute at a
--   time): as needs_attention has them. An alarm as soon as it tells one. worker_lost, likewise: a warning, since what it held
--   comes back by itself.
-- oldest_waiting: the oldest claimable task of an agent that nothing holds back: not paused, no cooldown, no limit that its next
--   task has to wait for. 15 minutes, from which on needs_attention tells it, and an hour.
-- expired_lease: since when the oldest lease, and the grace after it, has been over. 2 and 10 minutes: a look-up of job runs may
--   take a minute or more of that (see _expire_leases).
-- unadopted: since when the oldest attempt without a run could have been adopted, its worker being dead. 2 and 10 minutes.
-- sweep_lag: how overdue the oldest retry is, or the oldest run that is presumed dead. 1 and 5 minutes. sweep_age: since when
--   nobody has swept; 2 and 10 minutes, only while something waits or runs. Both leave room for the half minute between two
--   looks of an idle worker.
-- rollup_lag: since when not all deltas have been folded. 5 minutes and an hour, only from 1000 of them on, before that it costs
--   nothing. unfolded_deltas: how many there are at most. 20,000 and 200,000: every page reads them all.
-- rollup_difference: today's and yesterday's finished tasks by the day, less those by the hour. Warns of one: they are equal
--   (rule 15).
-- unsettled: attempts that succeeded 5 minutes to an hour ago and whose usage nobody has told, of the newest 1000 that have no
--   trace: their cost stays unknown. Warns of 20.
-- compute_fetch: how long the process that asks billing has been silent. Warns after a minute: it is lost then (_compute_fetch).
-- copy: 1 in a database that is a copy of the installation's (see check_home), an alarm.
--
-- with_attention: false leaves out what needs_attention tells agent by agent. Planned with the settings of health.
create or replace function lakequeue._queue_checks(with_attention boolean)
returns table (name text, value numeric, unit text, warns_at numeric, alarms_at numeric, words text)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
  v_zone text := (select i.time_zone from installation i);
  v_today date := _day(v_now);
  v_folded_to bigint := _folded_to();
  v_retries_from timestamptz := _retries_from();
  v_deltas bigint := (select max(d.id) from task_deltas d where d.id > v_folded_to)
    - (select min(d.id) from task_deltas d where d.id > v_folded_to) + 1;
  v_open boolean;
begin
  v_open := exists (select from agents g where g.paused_at is null and _has_claimable(g.id))
    or exists (select from _processing())
    or (select min(t.retry_at) from tasks t
        where t.status = 'enqueued' and t.retry_at is not null and t.retry_at >= v_retries_from) is not null;
  return query
    with attention as materialized (
      select n.* from needs_attention() n where with_attention
    ), idle as (  -- the oldest task that waits though nothing holds its agent back
      select s.agent, extract(epoch from s.oldest_waiting) as seconds
      from agent_status() s
      where with_attention and s.paused_at is null and s.cooldown_until is null and s.oldest_waiting is not null
        and s.agent not in (select x.agent from explain_throttles() x where x.binds)
      order by s.oldest_waiting desc
      limit 1
    ), running as materialized (
      select p.task_id as id, p.lease_expires_at + g.reconcile_grace as over_at,
             case when p.run_id is null and _alive(w, v_now) is not true
                  then greatest(p.started_at, w.heartbeat_at) + interval '1 minute' end as adoptable_at
      from _processing() p
      join agents g on g.id = p.agent_id
      left join workers w on w.name = p.locked_by
    ), overdue as (
      select min(o.at) as at
      from ((select t.retry_at as at from tasks t
             where t.status = 'enqueued' and t.retry_at is not null and t.retry_at >= v_retries_from order by t.retry_at limit 1)
            union all
            (select min(r.presumed_dead_at) from _running(array(select e.id from model_endpoints e)) r)) o
    ), done as (
      select u.kind, extract(epoch from v_now - u.done_at) as seconds from upkeep u
    ), differences as (
      select sum(r.tasks) as tasks
      from (
        select d.agent_id, d.status, d.day, d.tasks
        from agents g
        cross join unnest(array['completed', 'failed', 'cancelled']::task_status[]) s(status)
        join task_rollups d on d.agent_id = g.id and d.status = s.status and d.day in (v_today - 1, v_today)
        union all
        select h.agent_id, h.status, (h.hour at time zone v_zone)::date, -h.tasks
        from agents g
        join hourly_rollups h on h.agent_id = g.id and h.hour >= (v_today - 1)::timestamp at time zone v_zone
          and h.hour < (v_today + 1)::timestamp at time zone v_zone) r
      group by r.agent_id, r.status, r.day
    )
    select k.name, case when k.name = 'breaker' then n.rows else coalesce(n.amount / k.per, 0) end, k.unit, k.warns_at, k.alarms_at,
           format(k.words, n.agent, n.words)
    from (values
      ('breaker', 'agents', 1, null::numeric, 1::numeric,
       '%1$s was paused: %2$s. Mend it, then: select lakequeue.resume_agent(%1$L)'),
      ('no_worker', 'tasks', 1, null, 1, 'tasks wait and no worker is alive: start one with lakequeue worker (or up)'),
      ('failing', 'ratio', 100, null, 0.2,
       'of %1$s a fifth or more failed in the last hour: select error, count(*) from lakequeue.list_tasks(statuses => '
       '''{failed}'', agents => array[%1$L], page_size => 100) group by 1 order by 2 desc'),
      ('sweep_errors', 'rows', 1, null, 1,
       'the sweep passes them over and tries again every minute (%2$s): select task_id, agent, reason, max(at) from '
       'lakequeue.list_events(kinds => ''{sweep_error}'') group by 1, 2, 3; this is a fault of ours, report it'),
      ('worker_lost', 'workers', 1, 1, null,
       '%2$s ended without a word; what it held comes back by itself. Look at its log, and for what killed it')
    ) k(name, unit, per, warns_at, alarms_at, words)
    cross join lateral (
      select count(*)::numeric as rows, max(a.amount)::numeric as amount, (array_agg(a.agent order by a.amount desc))[1] as agent,
             (array_agg(a.words order by a.amount desc))[1] as words
      from attention a where a.kind = k.name) n
    where with_attention
    union all
    select 'oldest_waiting', coalesce(i.seconds, 0), 'seconds', 900, 3600,
           format('a task of %s waits though nothing holds the agent back: see the log of its workers, and '
                  'select * from lakequeue.list_workers()%s', i.agent,
                  (select format('; process %s holds a lock of the throttle: select pg_terminate_backend(%s)', l.pid, l.pid)
                   from pg_locks l
                   where l.locktype = 'advisory' and l.classid = _lock_class()::oid and l.granted and l.pid <> pg_backend_pid()
                     and l.database = (select d.oid from pg_database d where d.datname = current_database())
                     and l.objid in (select e.id::oid from model_endpoints e)
                   order by l.pid limit 1))
    from (values (1)) one(row) left join idle i on true
    where with_attention
    union all
    select 'expired_lease', coalesce(greatest(extract(epoch from v_now - min(r.over_at)), 0), 0), 'seconds', 120, 600,
           format('task %s is not given back: is a worker alive, and are there sweep_errors? select * from '
                  'lakequeue.sweep_leases()', (array_agg(r.id order by r.over_at))[1])
    from running r
    union all
    select 'unadopted', coalesce(greatest(extract(epoch from v_now - min(r.adoptable_at)), 0), 0), 'seconds', 120, 600,
           format('task %s was claimed, its worker is dead, and nobody submits it: start a worker that serves its agent (local, '
                  'or databricks for one with a job)', (array_agg(r.id order by r.adoptable_at))[1])
    from running r
    union all
    select 'sweep_lag', coalesce(greatest(extract(epoch from v_now - o.at), 0), 0), 'seconds', 60, 300,
           'due retries or dead runs wait for a sweep: is a worker alive? select * from lakequeue.sweep_leases()'
    from overdue o
    union all
    select 'sweep_age', d.seconds, 'seconds', case when v_open then 120 end, case when v_open then 600 end,
           'no worker sweeps: start one, see its log; by hand: select * from lakequeue.sweep_leases()'
    from done d where d.kind = 'sweep'
    union all
    select 'rollup_lag', case when v_deltas is null then 0 else d.seconds end, 'seconds',
           case when v_deltas > 1000 then 300 end, case when v_deltas > 1000 then 3600 end,
           'no worker folds, so pages get slower: start one, see its log; by hand, until it gives 0: '
           'select lakequeue.fold_rollups()'
    from done d where d.kind = 'fold'
    union all
    select 'unfolded_deltas', coalesce(v_deltas, 0), 'deltas', 20000, 200000,
           'pages get slower; by hand, until it gives 0: select lakequeue.fold_rollups()'
    union all
    select 'rollup_difference', coalesce(sum(abs(f.tasks)), 0), 'tasks', 1, null,
           'charts by the hour miss tasks or count them twice; for two days that is so after a migrate past version 8 with '
           'running workers; else it is a fault of ours, report it'
    from differences f
    union all
    select 'unsettled', count(*) filter (where s.usage_source is null and s.status = 'succeeded'), 'attempts', 20, null,
           'their tokens and cost are unknown: do agents report usage, and (job runs) can the worker read the experiment? '
           'lakequeue doctor'
    from (
      select a.usage_source, a.status from task_attempts a
      where a.ended_at is not null and a.usage_source is distinct from 'trace'
        and a.ended_at > v_now - interval '1 hour' and a.ended_at <= v_now - interval '5 minutes'
      order by a.ended_at desc
      limit 1000) s
    union all
    select 'compute_fetch', coalesce(extract(epoch from v_now - max(f.seen_at)), 0), 'seconds', 60, null,
           'the process that asked billing has stopped: press Load compute cost again'
    from compute_fetches f where f.state = 'running'
    union all
    select 'copy', case when regexp_replace(i.home, '(, )?projects/[^/]+/branches/[^/]+$', '') <> _here(null) then 1 else 0 end,
           null, null, 1,
           format('this is a copy, nothing runs here: the installation lives at (%s). select * from lakequeue.quiesce(''why'') '
                  'or, if it has moved, select lakequeue.move_here(''why'')', i.home)
    from installation i;
end $$;

comment on function lakequeue._queue_checks(boolean) is 'The checks of health that are about the queue.';
