-- Records what billing answered to a fetch, and ends it. It replaces what was known of each run, and of each endpoint's
-- day, that has a row in the answer, so that a repeat or a later fetch never counts anything twice. Rows of one run, SKU,
-- unit, day and currency are added up, whatever their record types: a retraction is negative, and undoes what it
-- retracts. Billing takes nothing back without a row, so what the answer does not mention stays as it was known: a
-- login that sees less erases nothing. A run that never had a row is not billed yet, which is not 0. Rows that were not
-- asked for (another application's runs) are left out and counted as ignored. Where a run is that of several attempts, its
-- bill is the first one's of those asked for.
--
-- fetch_id: its id. workspace: whose usage it is. rows: a JSON array of objects: kind (run or endpoint), name (run id or
--   endpoint's name), sku, unit, day, currency and cost (null where no price is known), quantity; numbers best as text.
-- A run is settled, and not asked for again, when billing answers a week after its end: corrections come within days. An
-- answer that knows no run at all settles none: it may be of another workspace, or of a login that sees no rows.
-- Returns runs asked for, how many of them are billed, rows ignored. The same again for a fetch that is done.
-- Errors: LQ428 not READ COMMITTED; LQ404 no such fetch; LQ409 it was cancelled or has failed; LQ422 rows that are no
--   such array; 55P03 somebody has held a task for more than a second: call again, nothing was done.
-- Locks: the fetch's row, the rows of its runs' tasks in id order, the rows of the runs in id order.
create or replace function lakequeue.record_compute_cost(fetch_id bigint, workspace text, rows json)
returns table (runs integer, billed integer, ignored integer)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  v_fetch compute_fetches;
  v_now timestamptz := _now();
  v_task_ids bigint[];
  v_attempt_ids bigint[];
  v_rows integer;
  v_taken integer;
  v_knows boolean;
  v_billed integer;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('record_compute_cost');
  end if;
  v_fetch := _compute_fetch(fetch_id);
  if v_fetch.state = 'done' then
    return query select v_fetch.runs, v_fetch.billed, v_fetch.ignored;
    return;
  end if;
  if v_fetch.state <> 'running' or v_fetch.cancel_requested_at is not null then
    raise exception using errcode = 'LQ409', message = format('fetch %s was stopped, so its answer is not recorded', fetch_id),
      hint = 'Ask again with lakequeue.begin_compute_fetch.';
  end if;
  -- While they are locked, no task moves to another group of the ledger with what is being replaced here.
  v_task_ids := array(
    select t.id from tasks t
    where t.id = any(array(select r.task_id from compute_runs r where r.fetch_id = v_fetch.id))
    order by t.id
    for no key update);
  v_attempt_ids := array(
    select r.attempt_id
    from compute_runs r
    -- by ids, or a kept plan may walk through all runs in their order; and once more, since the next fetch may have taken them over
    where r.attempt_id = any(array(select x.attempt_id from compute_runs x where x.fetch_id = v_fetch.id)) and r.fetch_id = v_fetch.id
    order by r.attempt_id
    for no key update);
  delete from compute_runs r  -- of tasks that were purged since they were asked for
  where r.attempt_id = any(v_attempt_ids) and (select true from tasks t where t.id = r.task_id limit 1) is null;

  insert into compute_deltas (agent_id, customer, status, day, currency, tasks, priced, list_cost)
  select g.agent_id, g.customer, g.status, g.day, g.currency, -g.tasks, -g.priced, -g.list_cost from _compute_groups(v_task_ids) g;
  begin
    v_rows := json_array_length(record_compute_cost.rows);
    if v_rows is null then
      raise invalid_parameter_value using message = 'rows is null';
    end if;
    delete from compute_costs c
    where c.attempt_id = any(array(
      select r.attempt_id
      from compute_runs r
      where r.fetch_id = v_fetch.id
        and r.run_id = any(array(
          select _whole_number(g.name)
          from json_to_recordset(record_compute_cost.rows) g(kind text, name text)
          where g.kind = 'run'))));
    with given as (
      select g.*
      from json_to_recordset(record_compute_cost.rows)
        g(kind text, name text, sku text, unit text, day date, currency text, quantity numeric, cost numeric)
      where g.kind = 'run'
    ), kept as (
      select r.attempt_id, r.task_id, g.sku, g.unit, g.day, case when g.cost is not null then g.currency end as currency,
             g.quantity, g.cost
      from given g
      cross join lateral (  -- LIMIT keeps it a probe, whatever the statistics say, and + 0 out of the order of attempts
        select c.* from compute_runs c
        where c.fetch_id = v_fetch.id and c.run_id = _whole_number(g.name)
        order by c.attempt_id + 0
        limit 1) r
    ), added as (
      insert into compute_costs (attempt_id, task_id, sku, unit, day, currency, quantity, list_cost)
      select k.attempt_id, k.task_id, k.sku, k.unit, k.day, k.currency, sum(k.quantity), sum(k.cost)
      from kept k
      group by k.attempt_id, k.task_id, k.sku, k.unit, k.day, k.currency
    )
    select count(*), count(*) > 0 into v_taken, v_knows from kept k;

    delete from endpoint_costs e
    where e.endpoint = any(v_fetch.endpoints) and e.day between v_fetch.usage_from and v_fetch.usage_to
      and (e.endpoint, e.day) in (
        select g.name, g.day
        from json_to_recordset(record_compute_cost.rows) g(kind text, name text, day date)
        where g.kind = 'endpoint');
    with kept as (
      select g.name, g.sku, g.unit, g.day, case when g.cost is not null then g.currency end as currency, g.quantity, g.cost
      from json_to_recordset(record_compute_cost.rows)
        g(kind text, name text, sku text, unit text, day date, currency text, quantity numeric, cost numeric)
      where g.kind = 'endpoint' and g.name = any(v_fetch.endpoints) and g.day between v_fetch.usage_from and v_fetch.usage_to
    ), added as (
      insert into endpoint_costs (endpoint, sku, unit, day, currency, quantity, list_cost, fetched_at)
      select k.name, k.sku, k.unit, k.day, k.currency, sum(k.quantity), sum(k.cost), v_now
      from kept k
      group by k.name, k.sku, k.unit, k.day, k.currency
    )
    select v_taken + count(*) into v_taken from kept k;
  exception
    when invalid_parameter_value or invalid_text_representation or invalid_datetime_format or datetime_field_overflow
      or numeric_value_out_of_range or not_null_violation or check_violation then
      raise exception using errcode = 'LQ422', message = format('billing''s answer cannot be read: %s', left(sqlerrm, 300)),
        hint = 'rows is a JSON array of objects with kind, name, sku, unit, day, currency, quantity and cost.';
  end;

  update compute_runs r
  set asked_at = v_now,
      billed = (select count(*) from (select from compute_costs c where c.attempt_id = r.attempt_id limit 1) one) > 0,
      settled = v_knows and coalesce(
        (select coalesce(a.run_ended_at, a.ended_at) from task_attempts a where a.id = r.attempt_id) <= v_now - interval '7 days',
        false)
  where r.attempt_id = any(v_attempt_ids);
  insert into compute_deltas (agent_id, customer, status, day, currency, tasks, priced, list_cost)
  select g.* from _compute_groups(v_task_ids) g;
  select count(*) filter (where r.billed) into v_billed from compute_runs r where r.attempt_id = any(v_attempt_ids);
  update compute_fetches f
  set state = 'done', ended_at = v_now, seen_at = v_now, workspace_id = _clean_text(workspace, 200), billed = v_billed,
      ignored = v_rows - v_taken
  where f.id = v_fetch.id
  returning f.* into v_fetch;
  return query select v_fetch.runs, v_fetch.billed, v_fetch.ignored;
end $$;

comment on function lakequeue.record_compute_cost(bigint, text, json) is
  'Records what billing answered to a fetch: replaces what was known of its runs, adds up all record types.';
