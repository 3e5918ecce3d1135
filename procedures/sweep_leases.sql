-- The periodic upkeep of the queue, bounded and safe to call from anywhere any number of times; workers do every
-- second while anything happens, and less and less often when nothing does. One batch each of:
-- 1. attempts whose lease, and the agent's reconcile_grace after it, have run out: ended as expired, their tasks back in
--    the queue, cancelled if that was asked for, or failed at max_attempts (rules 3 and 7);
-- 2. retries whose time has come: claimable again (rule 2);
-- 3. runs of attempts closed long enough ago to be presumed dead: they count in no limit any more;
-- 4. workers silent for a minute: taken for dead;
-- 5. model calls that no window needs any more: forgotten; and what agents learn from their work, once a minute each.
-- A task or an agent that fails is noted as an event, once a minute at most, and stops none of the others.
--
-- batch_size: most rows of each kind, 1 to 1000.
-- Returns how many of each kind. As long as one equals batch_size there may be more.
-- Errors: LQ428 not READ COMMITTED; LQ400 batch_size out of range; 55P03 see Locks in db/README.md: call again.
-- Locks: one sweeper at a time (another returns at once with zeros); tasks in id order, skipping locked ones; attempts.
create or replace function lakequeue.sweep_leases(batch_size integer default 50)
returns table (expired integer, retries integer, runs_ended integer, workers_lost integer)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set lock_timeout = '100ms'
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_now timestamptz;
  v_ids bigint[];
  v_book sweep_books;
  v_retries_from timestamptz;
  v_calls_to timestamptz;  -- what ended up to then is forgotten
  v_forgotten bigint;
  v_agent_id integer;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('sweep_leases');
  end if;
  if batch_size is null or batch_size not between 1 and 1000 then
    raise exception using errcode = 'LQ400', message = 'batch_size must be 1 to 1000', hint = 'The default is 50.';
  end if;
  expired := 0; retries := 0; runs_ended := 0; workers_lost := 0;
  if not pg_try_advisory_xact_lock(_lock_class(), 0) then
    return next;
    return;
  end if;
  v_now := _now();

  select k.* into v_book from sweep_books k order by k.no desc limit 1;
  if not found then
    insert into sweep_books default values returning * into v_book;
  end if;
  if not v_now between v_book.looked_at and v_book.looked_at + interval '5 minutes' then  -- look at everything
    v_book.retries_from := '-infinity';
    v_book.calls_from := '-infinity';
    v_book.looked_at := v_now;
  end if;

  expired := _expire_leases(batch_size);

  v_ids := array(
    select t.id from tasks t
    where t.status = 'enqueued' and t.retry_at is not null and t.retry_at <= v_now
      and t.retry_at >= v_book.retries_from
    order by t.retry_at, t.id
    limit batch_size
    for no key update skip locked);
  update tasks t set retry_at = null, lane = _return_lane(t.agent_id) where t.id = any(v_ids);
  retries := cardinality(v_ids);

  -- Whoever takes an attempt locks its task first.
  v_ids := array(
    select t.id from tasks t
    where t.id = any(array(
      select r.task_id from _running(array(select e.id from model_endpoints e)) r
      where r.presumed_dead_at <= v_now
      order by r.presumed_dead_at
      limit batch_size))
    order by t.id
    for no key update skip locked);
  with ended as (
    update task_attempts a set run_ended_at = v_now
    where a.task_id = any(v_ids) and a.presumed_dead_at <= v_now
      and coalesce(a.run_ended_at, 'infinity') = 'infinity'  -- or the planner might read all of an index for those where it is null
    returning a.id
  )
  select array_agg(e.id) into v_ids from ended e;
  runs_ended := coalesce(cardinality(v_ids), 0);
  if runs_ended > 0 then
    perform _close_calls(v_ids);
    perform _nudge('lakequeue_worker');
  end if;

  update workers w set stopped_at = v_now
  where w.stopped_at is null and not _alive(w, v_now);
  get diagnostics workers_lost = row_count;

  with forgotten as (
    delete from model_calls c
    where c.id = any(array(
      select o.id
      from model_endpoints e
      cross join lateral (
        select d.id from model_calls d
        where d.endpoint_id = e.id and d.ended_at < v_now - interval '2 minutes' and d.ended_at >= v_book.calls_from
        order by d.ended_at limit 20 * batch_size) o))
    returning c.endpoint_id, c.ended_at
  )
  select coalesce(sum(f.calls), 0), least(v_now - interval '2 minutes', min(f.ended_at) filter (where f.calls = 20 * batch_size))
  into v_forgotten, v_calls_to
  from (select count(*) as calls, max(f.ended_at) as ended_at from forgotten f group by f.endpoint_id) f;

  for v_agent_id in
    select a.id
    from agents a
    left join lateral (select k.learnt_at from learning_books k where k.agent_id = a.id order by k.no desc limit 1) learnt on true
    where coalesce(learnt.learnt_at <= v_now - interval '1 minute', true)
      -- only of those that work, so that an idle database writes nothing
      and coalesce(
        (select true from _running(array[a.model_endpoint_id]) limit 1),
        (select true from task_attempts s
         where s.endpoint_id = a.model_endpoint_id and s.run_ended_at > v_now - interval '2 minutes' limit 1))
      and (select max(e.at) from task_events e
           where e.agent_id = a.id and e.task_id is null and e.kind = 'sweep_error' and e.at > v_now - interval '1 minute') is null
    order by learnt.learnt_at nulls first, a.id
    limit batch_size
  loop
    begin
      perform _learn(v_agent_id);
    exception
      when lock_not_available then
        null;  -- another time
      when others then
        perform _log_event('sweep_error', agent => v_agent_id, reason => sqlerrm, detail => jsonb_build_object('sqlstate', sqlstate));
    end;
  end loop;

  -- The next sweeps begin with what is left now (locked, or more than a batch), and ten seconds before it, so that they also
  -- find what had its time then and was committed since. What lay open for longer waits until one looks at everything.
  if retries > 0 or v_forgotten > 0 or v_now > v_book.retries_from + interval '1 minute' then
    v_retries_from := least(v_now, (
      select min(t.retry_at) from tasks t
      where t.status = 'enqueued' and t.retry_at is not null and t.retry_at >= v_book.retries_from)) - interval '10 seconds';
    update sweep_books k
    set no = k.no + 1, retries_from = v_retries_from, calls_from = v_calls_to, looked_at = v_book.looked_at
    where k.no = v_book.no;
  end if;

  -- For health, seldom enough for an idle database and a held snapshot.
  update upkeep u set done_at = v_now
  where u.kind = 'sweep' and coalesce(u.done_at not between v_now - interval '30 seconds' and v_now, true);
  return next;
end $$;

comment on function lakequeue.sweep_leases(integer) is
  'Periodic upkeep: expired leases, due retries, runs presumed dead, dead workers.';
