-- Deletes tasks that were finished long ago, oldest first, with all that belongs to them: attempts, results, events, model
-- calls, compute costs, their lines on batch pages, and batches of that age of which no line is left. Totals stay: rollups
-- keep what the tasks were and cost, purged_tasks and purged_compute what of it can be counted no more. A task one of whose
-- runs may be alive is kept whatever its age, and one that a later batch has met again as long as that batch.
--
-- older_than: how long ago they were finished at least; a day or more, since traces and bills come later than results.
-- batch_size: most tasks in one call, 1 to 1000; call again until it answers 0. completed: those, too; without their
-- dedup_keys the same document would be parsed and paid again, so else only failed and cancelled ones go.
-- reason: why. actor: who; believed only from a login that is web process and operator in one, else it is the login.
-- Returns how many of each were deleted.
-- Errors: LQ428 not READ COMMITTED; LQ400 an argument out of range; LQ403 not permitted; 55P03 see Locks in
--   db/README.md: call again.
-- Locks: the tasks' rows in id order, skipping locked ones; runs that billing was asked for, in the order of their
--   attempts; then what is deleted with them.
create or replace function lakequeue.purge_tasks(
  older_than interval, batch_size integer default 500, completed boolean default false,
  reason text default null, actor text default null)
returns table (tasks integer, attempts integer, results integer, documents integer, extractions integer)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set lock_timeout = '100ms'
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_sort = off
set enable_bitmapscan = off
as $$
declare
  v_actor text := _actor(actor);
  v_before timestamptz := _now() - greatest(least(older_than, interval '1000 years'), interval '0');
  v_ids bigint[];
  v_attempt_ids bigint[];
  v_extraction_ids bigint[];
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('purge_tasks');
  end if;
  if older_than is null or older_than < interval '1 day' then
    raise exception using errcode = 'LQ400', message = 'older_than must be a day or more',
      hint = 'Traces and bills of a task may come until then.';
  end if;
  if batch_size is null or batch_size not between 1 and 1000 then
    raise exception using errcode = 'LQ400', message = 'batch_size must be 1 to 1000', hint = 'The default is 500.';
  end if;

  v_ids := array(
    select t.id
    from tasks t
    where t.id = any(array(
        select o.id
        from agents g
        cross join unnest('{failed, cancelled, completed}'::task_status[]) s(status)
        cross join lateral (
          select f.id, f.finished_at
          from tasks f
          where f.agent_id = g.id and f.status = s.status and f.finished_at is not null and f.finished_at < v_before
            -- LIMIT and OFFSET keep these probes, whatever the statistics say; only completed ones are met again
            and (select true from task_attempts a where a.task_id = f.id and a.run_ended_at is null limit 1) is null
            and (s.status <> 'completed' or (
              select true
              from (select d.extraction_id from extraction_documents d where d.task_id = f.id offset 0) d
              cross join lateral (select from extractions e where e.id = d.extraction_id and e.created_at >= v_before limit 1) e
              where d.extraction_id is distinct from f.extraction_id
              limit 1) is null)
          order by f.finished_at, f.id
          limit batch_size) o
        where s.status <> 'completed' or purge_tasks.completed
        order by o.finished_at, o.id
        limit batch_size))
      and t.finished_at < v_before  -- unless it was retried between the look and the lock
    order by t.id
    for update skip locked);
  v_attempt_ids := array(select a.id from task_attempts a where a.task_id = any(v_ids));

  insert into purged_tasks as p (
    agent_id, customer, status, hour, bucket, tasks, input_tokens, output_tokens, cached_tokens, llm_cost,
    ran, priced, input_told, output_told, cached_told, cost_told, billable)
  select t.agent_id, t.customer, t.status, _hour(t.finished_at),
         case when t.status = 'completed' then _response_bucket(t.finished_at - t.created_at) end,
         count(*), sum(u.used[1]), sum(u.used[2]), sum(u.used[3]), sum(u.used[4]),
         sum(u.used[5]), sum(u.used[6]), sum(u.used[7]), sum(u.used[8]), sum(u.used[9]), sum(u.used[10]),
         sum(least(u.used[11], 1))
  from tasks t
  cross join lateral (select _task_usage(t.id) as used offset 0) u  -- one call a task, not one for each number
  where t.id = any(v_ids)
  group by 1, 2, 3, 4, 5
  order by 1, 4, 2, 3, 5
  on conflict (agent_id, hour, customer, status, bucket) do update
  set tasks = p.tasks + excluded.tasks, input_tokens = p.input_tokens + excluded.input_tokens,
      output_tokens = p.output_tokens + excluded.output_tokens, cached_tokens = p.cached_tokens + excluded.cached_tokens,
      llm_cost = p.llm_cost + excluded.llm_cost, ran = p.ran + excluded.ran, priced = p.priced + excluded.priced,
      input_told = p.input_told + excluded.input_told, output_told = p.output_told + excluded.output_told,
      cached_told = p.cached_told + excluded.cached_told, cost_told = p.cost_told + excluded.cost_told,
      billable = p.billable + excluded.billable;
  insert into purged_compute as p (agent_id, customer, status, day, currency, tasks, priced, list_cost)
  select c.agent_id, c.customer, c.status, c.day, c.currency, c.tasks, c.priced, c.list_cost
  from _compute_groups(v_ids) c
  order by c.agent_id, c.status, c.day, c.customer, c.currency
  on conflict (agent_id, status, day, customer, currency) do update
  set tasks = p.tasks + excluded.tasks, priced = p.priced + excluded.priced, list_cost = p.list_cost + excluded.list_cost;

  -- by attempt, as begin_compute_fetch locks them, which takes no task's lock
  perform from compute_runs r where r.attempt_id = any(v_attempt_ids) order by r.attempt_id for update;
  delete from compute_costs c where c.attempt_id = any(v_attempt_ids);
  delete from compute_runs r where r.attempt_id = any(v_attempt_ids);
  delete from results r where r.attempt_id = any(v_attempt_ids);
  get diagnostics results = row_count;
  delete from model_calls c where c.attempt_id = any(v_attempt_ids);
  delete from task_attempts a where a.id = any(v_attempt_ids);
  get diagnostics attempts = row_count;
  delete from task_events e where e.task_id = any(v_ids);
  delete from tasks t where t.id = any(v_ids);
  get diagnostics tasks = row_count;

  with gone as (
    delete from extraction_documents d where d.task_id = any(v_ids) returning d.extraction_id
  )
  select array_agg(distinct g.extraction_id), count(*) into v_extraction_ids, documents from gone g;
  delete from extractions e
  where e.id = any(v_extraction_ids) and e.created_at < v_before
    and (select true from extraction_documents d where d.extraction_id = e.id limit 1) is null;
  get diagnostics extractions = row_count;

  if tasks > 0 then
    perform _log_event('purged', actor => v_actor, reason => reason,
                       detail => jsonb_build_object('tasks', tasks, 'finished_before', v_before));
  end if;
  return next;
end $$;

comment on function lakequeue.purge_tasks(interval, integer, boolean, text, text) is
  'Deletes tasks that were finished long ago, with all that belongs to them; totals stay.';
