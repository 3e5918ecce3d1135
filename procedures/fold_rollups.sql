-- Folds deltas into rollups and response histograms (rule 15): what it folds it deletes, in the same statement, so
-- that readers, who add both, never see a delta twice or not at all; also into running_totals. What compute costs is
-- folded along (_fold_compute). Once in 5 minutes it notes how long the queue is.
--
-- A fold leaves a new version of every row that it changes, and a held snapshot keeps them all. So who calls every second is
-- patient: fewer than 100 deltas (a reader takes 40 microseconds for each) wait up to a minute or so (what upkeep tells is half a minute old).
--
-- What was folded stays in the index as long as somebody holds a snapshot, so all begin behind what is known to be folded
-- (_folded_to). Who has drawn an id and not committed could add a delta behind that; it has a writer's lock on task_deltas
-- from before it drew until it ends. So a fold notes the newest id drawn, then (in this order) who has that lock (_writers).
-- Once none of these is left, at once if there was none, a later look that finds nothing unfolded up to the note sees all
-- there will ever be, and moves the mark to it, or up to the oldest one found. Under REPEATABLE READ the look may be older
-- than the end of a writer: then the mark stays.
--
-- batch_size: most deltas, and most of compute, 1 to 100000. patient: folds nothing yet where that can wait; workers do, by default all is folded.
-- Returns how many were folded, of the kind of which more were; call again while it equals batch_size.
-- Errors: LQ400 batch_size out of range, or patient is null.
-- Locks: one folder at a time (another returns 0 at once); the rollup rows in key order.
create or replace function lakequeue.fold_rollups(batch_size integer default 10000, patient boolean default false)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz := _now();
  v_folded bigint;
  v_book fold_books;
  v_before fold_books;
  v_drawn bigint;
  v_writers text[];
  v_some_left boolean;
  v_settled boolean;
begin
  if batch_size is null or batch_size not between 1 and 100000 then
    raise exception using errcode = 'LQ400', message = 'batch_size must be 1 to 100000', hint = 'The default is 10000.';
  end if;
  if patient is null then
    raise exception using errcode = 'LQ400', message = 'patient must be true or false', hint = 'The default is false.';
  end if;
  if not pg_try_advisory_xact_lock(_lock_class(), -3) then
    return 0;
  end if;

  select k.* into v_book from fold_books k order by k.no desc limit 1;
  if not found then
    insert into fold_books default values returning * into v_book;
  end if;
  if patient
     and (select u.done_at between v_now - interval '1 minute' and v_now from upkeep u where u.kind = 'fold')
     and (select count(*) from (select from task_deltas d where d.id > v_book.folded_to limit 100) w) < 100 then
    perform _sample_queue();
    return 0;
  end if;

  v_before := v_book;
  v_drawn := coalesce(pg_sequence_last_value('lakequeue.task_deltas_id_seq'), 0);
  select w.names, w.some_left into v_writers, v_some_left from _writers('lakequeue.task_deltas', v_book.holders) w;
  if v_book.folded_to > v_drawn then  -- somebody has set the sequence back
    v_book.folded_to := 0;
    v_book.noted := 0;
    v_book.holders := '{}';
  end if;
  if v_writers = '{}' then
    v_book.noted := v_drawn;
    v_book.holders := '{}';
  end if;
  v_settled := current_setting('transaction_isolation') = 'read committed' and (v_book.holders = '{}' or not v_some_left);

  with folded as (
    delete from task_deltas d
    where d.id = any(array(select o.id from task_deltas o where o.id > v_book.folded_to order by o.id limit batch_size))
    returning d.*
  ), sides as materialized (
    select s.* from folded f cross join lateral _delta_sides(f) s
  ), counted as (
    insert into task_rollups as r (
      agent_id, customer, status, day, tasks, input_tokens, output_tokens, cached_tokens, llm_cost,
      ran, priced, input_told, output_told, cached_told, cost_told, billable)
    select s.agent_id, s.customer, s.status, s.day, sum(s.tasks), sum(s.input_tokens), sum(s.output_tokens),
           sum(s.cached_tokens), sum(s.llm_cost), sum(s.ran), sum(s.priced), sum(s.input_told), sum(s.output_told),
           sum(s.cached_told), sum(s.cost_told), sum(s.billable)
    from sides s
    group by s.agent_id, s.customer, s.status, s.day
    -- what has come and gone since the last fold changes nothing: no new version of its row, which a held snapshot would keep
    having (sum(s.tasks), sum(s.input_tokens), sum(s.output_tokens), sum(s.cached_tokens), sum(s.llm_cost), sum(s.ran), sum(s.priced),
            sum(s.input_told), sum(s.output_told), sum(s.cached_told), sum(s.cost_told), sum(s.billable))
           <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    order by s.agent_id, s.status, s.day, s.customer
    on conflict (agent_id, status, day, customer) do update
    set tasks = r.tasks + excluded.tasks,
        input_tokens = r.input_tokens + excluded.input_tokens,
        output_tokens = r.output_tokens + excluded.output_tokens,
        cached_tokens = r.cached_tokens + excluded.cached_tokens,
        llm_cost = r.llm_cost + excluded.llm_cost,
        ran = r.ran + excluded.ran,
        priced = r.priced + excluded.priced,
        input_told = r.input_told + excluded.input_told,
        output_told = r.output_told + excluded.output_told,
        cached_told = r.cached_told + excluded.cached_told,
        cost_told = r.cost_told + excluded.cost_told,
        billable = r.billable + excluded.billable
  ), times as materialized (
    select s.agent_id, s.customer, s.day, s.hour, s.bucket, sum(s.tasks) as tasks
    from sides s
    where s.bucket is not null
    group by s.agent_id, s.customer, s.day, s.hour, s.bucket
    having sum(s.tasks) <> 0  -- a late report of usage leaves its bucket and enters it again
  ), timed as (
    -- of a day and of its month, of an agent and of all (0), of a customer and of all (null)
    insert into response_histogram as h (agent_id, customer, by_month, day, bucket, tasks)
    select coalesce(t.agent_id, 0), t.customer, p.by_month, p.day, t.bucket, sum(t.tasks)
    from times t
    cross join lateral (values (false, t.day), (true, date_trunc('month', t.day::timestamp)::date)) p(by_month, day)
    group by cube (t.agent_id, t.customer), p.by_month, p.day, t.bucket
    order by 1, 2, 3, 4, 5
    on conflict (agent_id, customer, by_month, day, bucket) do update set tasks = h.tasks + excluded.tasks
  ), timed_by_hour as (
    insert into hourly_histogram as h (agent_id, customer, hour, bucket, tasks)
    select coalesce(t.agent_id, 0), t.customer, t.hour, t.bucket, sum(t.tasks)
    from times t
    where t.hour is not null  -- those from before 0008: migration 0009 has counted them
    group by cube (t.agent_id, t.customer), t.hour, t.bucket
    having sum(t.tasks) <> 0
    order by 1, 2, 3, 4
    on conflict (agent_id, customer, hour, bucket) do update set tasks = h.tasks + excluded.tasks
  ), by_hour as (
    insert into hourly_rollups as h (agent_id, customer, status, hour, tasks)
    select s.agent_id, s.customer, s.status, s.hour, sum(s.tasks)
    from sides s
    where s.hour is not null
    group by s.agent_id, s.customer, s.status, s.hour
    having sum(s.tasks) <> 0
    order by s.agent_id, s.hour, s.status, s.customer
    on conflict (agent_id, hour, status, customer) do update set tasks = h.tasks + excluded.tasks
  ), gained as (
    insert into running_totals as t (agent_id, completed, failed, cancelled, input_tokens, output_tokens, cached_tokens, llm_cost)
    select g.agent_id, sum(g.completed), sum(g.failed), sum(g.cancelled), sum(g.input_tokens), sum(g.output_tokens),
           sum(g.cached_tokens), sum(g.llm_cost)
    from folded f cross join lateral _delta_gains(f) g
    group by g.agent_id
    order by g.agent_id
    on conflict (agent_id) do update
    set completed = t.completed + excluded.completed,
        failed = t.failed + excluded.failed,
        cancelled = t.cancelled + excluded.cancelled,
        input_tokens = t.input_tokens + excluded.input_tokens,
        output_tokens = t.output_tokens + excluded.output_tokens,
        cached_tokens = t.cached_tokens + excluded.cached_tokens,
        llm_cost = t.llm_cost + excluded.llm_cost
  )
  select count(*) into v_folded from folded;
  v_folded := greatest(v_folded, _fold_compute(batch_size));

  if v_settled then
    v_book.folded_to := coalesce(
      (select min(d.id) - 1 from task_deltas d where d.id > v_book.folded_to and d.id <= v_book.noted), v_book.noted);
    v_book.holders := '{}';
    if v_book.folded_to = v_book.noted then
      v_book.noted := v_drawn;
      v_book.holders := v_writers;
    end if;
  end if;
  update fold_books k
  set no = k.no + 1, folded_to = v_book.folded_to, noted = v_book.noted, holders = v_book.holders
  where k.no = v_book.no and v_book is distinct from v_before;
  if v_folded < batch_size then  -- for health, as in sweep_leases
    update upkeep u set done_at = v_now
    where u.kind = 'fold' and coalesce(u.done_at not between v_now - interval '30 seconds' and v_now, true);
  end if;
  perform _sample_queue();
  return v_folded;
end $$;

comment on function lakequeue.fold_rollups(integer, boolean) is 'Folds deltas into rollups; deletes what it folds.';
