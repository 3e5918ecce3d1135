-- Included by pgTAP files with `\ir scenarios.sql`, right after `begin;`: short words for putting tasks
-- into a state and for saying what must have become of them. Everything is undone by the file's rollback.
--
-- Each task made here has an agent and an endpoint of its own, so that scenarios do not disturb each other.

create schema scenario;
grant usage on schema scenario to public;
set search_path = lakequeue, tap, test, scenario;

create sequence scenario.numbers;

do $$
begin
  perform set_clock('2026-01-01 12:00+00');
  perform set_person('ops', 'operator');
end $$;

-- --- tasks and attempts --------------------------------------------------------------------------

-- An agent with an endpoint of its own: lease and grace 5 minutes, waits 10 seconds to 10 minutes.
create function scenario.new_agent(max_attempts integer default 3)
returns text
language plpgsql security definer set search_path = lakequeue, pg_temp
as $$
declare
  v_name text := 'agent ' || nextval('scenario.numbers');
begin
  perform configure_agent(v_name, max_attempts => new_agent.max_attempts, tokens_per_task => 1000);
  return v_name;
end $$;

create function scenario.new_task(max_attempts integer default 3)
returns bigint
language sql security definer set search_path = lakequeue, scenario, pg_temp
as $$ select enqueue_task(new_agent(new_task.max_attempts), '/a.pdf', customer => 'acme') $$;

create function scenario.agent_of(task bigint)
returns text
language sql security definer set search_path = lakequeue, pg_temp
as $$ select g.name from tasks t join agents g on g.id = t.agent_id where t.id = task $$;

create function scenario.task_of(attempt bigint)
returns bigint
language sql security definer set search_path = lakequeue, pg_temp
as $$ select a.task_id from task_attempts a where a.id = attempt $$;

create function scenario.token(attempt bigint)
returns text
language sql security definer set search_path = lakequeue, pg_temp
as $$ select _callback_token(a.id, a.run_key) from task_attempts a where a.id = attempt $$;

-- Dequeues this task (nothing else of its agent may be claimable) and returns the attempt.
create function scenario.claim(task bigint, worker text default 'w1')
returns bigint
language plpgsql security definer set search_path = lakequeue, scenario, pg_temp
as $$
declare
  v_claimed record;
begin
  select d.* into strict v_claimed from dequeue_tasks(claim.worker, 10, array[agent_of(task)]) d;
  if v_claimed.task_id is distinct from task then
    raise exception 'claimed task % instead of %', v_claimed.task_id, task;
  end if;
  return v_claimed.attempt_id;
end $$;

-- A new task, claimed.
create function scenario.start(max_attempts integer default 3)
returns bigint
language sql security definer set search_path = lakequeue, scenario, pg_temp
as $$ select claim(new_task(start.max_attempts)) $$;

-- Lets the attempt's lease and grace run out, and sweeps.
create function scenario.run_out(attempt bigint)
returns void
language plpgsql security definer set search_path = lakequeue, scenario, test, pg_temp
as $$
begin
  perform set_clock(greatest(_now(), t.lease_expires_at + g.reconcile_grace))
  from tasks t join agents g on g.id = t.agent_id where t.id = task_of(attempt);
  perform sweep_leases(1000);
  if (select a.status from task_attempts a where a.id = attempt) <> 'expired' then
    raise exception 'attempt % did not expire', attempt;
  end if;
end $$;

-- Moves the clock to where the task may be tried again, sweeps, and claims it for another worker.
create function scenario.claim_again(task bigint)
returns bigint
language plpgsql security definer set search_path = lakequeue, scenario, test, pg_temp
as $$
begin
  perform set_clock(greatest(_now(), t.retry_at)) from tasks t where t.id = task and t.retry_at is not null;
  perform sweep_leases(1000);
  return claim(task, 'w2');
end $$;

-- record_callback with the right token.
create function scenario.report(
  attempt bigint, outcome text, result json default null, confidence real default null,
  input_tokens bigint default null, output_tokens bigint default null, cached_tokens bigint default null,
  llm_cost numeric default null, usage_complete boolean default false, error_class text default null,
  error json default null, run_id bigint default null, trace_id text default null, retry_after interval default null)
returns text
language sql
as $$
  select lakequeue.record_callback(
    attempt, scenario.token(attempt), outcome, result, confidence, input_tokens, output_tokens, cached_tokens,
    llm_cost, usage_complete, error_class, error, run_id, trace_id, retry_after)
$$;

create function scenario.store(attempt bigint, result json default '{"total": 7}', confidence real default 0.5)
returns text
language sql
as $$ select lakequeue.store_result(attempt, scenario.token(attempt), result, confidence) $$;

-- Every situation in which an agent's word can arrive. Returns the attempt whose agent is about to speak.
create function scenario.attempt_in(situation text)
returns bigint
language plpgsql set search_path = lakequeue, scenario, test, pg_temp
as $$
declare
  v_attempt bigint := start();
  v_task bigint := task_of(v_attempt);
  v_other bigint;
begin
  case situation
    when 'running' then null;
    when 'running, lease over' then
      perform advance('6 min');
    when 'running, asked to stop' then
      perform cancel_task(v_task, actor => 'ops');
    when 'running, last try' then
      perform configure_agent(agent_of(v_task), max_attempts => 1);
    when 'running, no rate limit left' then
      perform configure_agent(agent_of(v_task), max_rate_limited => 0);
    when 'result stored' then
      perform store(v_attempt);
    when 'result stored, run presumed dead' then
      perform store(v_attempt);
      perform advance('1 hour');
      perform sweep_leases(1000);
    when 'confirmed' then
      perform report(v_attempt, 'success', '1');
    when 'reported failure' then
      perform report(v_attempt, 'failure');
    when 'reported failure, another runs' then
      perform report(v_attempt, 'failure');
      perform claim_again(v_task);
    when 'reported failure, another completed' then
      perform report(v_attempt, 'failure');
      perform report(claim_again(v_task), 'success', '1');
    when 'reported permanent failure' then
      perform report(v_attempt, 'permanent_failure');
    when 'reported rate limit' then
      perform report(v_attempt, 'rate_limited');
    when 'reported that it stopped' then
      perform cancel_task(v_task, actor => 'ops');
      perform report(v_attempt, 'cancelled');
    when 'run died, waiting' then
      perform fail_attempt(v_attempt, 'run_died');
    when 'run died, another runs' then
      perform fail_attempt(v_attempt, 'run_died');
      perform claim_again(v_task);
    when 'run died, failed' then
      perform fail_attempt(v_attempt, 'run_died', outcome => 'permanent_failure');
    when 'expired, enqueued' then
      perform run_out(v_attempt);
    when 'expired, another runs' then
      perform run_out(v_attempt);
      perform claim_again(v_task);
    when 'expired, another waits to retry' then
      perform run_out(v_attempt);
      perform report(claim_again(v_task), 'failure');
    when 'expired, another completed' then
      perform run_out(v_attempt);
      perform report(claim_again(v_task), 'success', '1');
    when 'expired, failed' then
      perform configure_agent(agent_of(v_task), max_attempts => 1);
      perform run_out(v_attempt);
    when 'expired, failed, result kept' then
      perform configure_agent(agent_of(v_task), max_attempts => 1);
      perform run_out(v_attempt);
      perform store(v_attempt);
    when 'expired, completed from the kept result' then
      perform configure_agent(agent_of(v_task), max_attempts => 1);
      perform run_out(v_attempt);
      perform store(v_attempt);
      perform retry_task(v_task, actor => 'ops');
    when 'expired, failed, retried' then
      perform configure_agent(agent_of(v_task), max_attempts => 1);
      perform run_out(v_attempt);
      perform retry_task(v_task, actor => 'ops');
    when 'expired after a request, cancelled' then
      perform cancel_task(v_task, actor => 'ops');
      perform run_out(v_attempt);
    when 'expired, cancelled in the queue' then
      perform run_out(v_attempt);
      perform cancel_task(v_task, actor => 'ops');
    when 'superseded' then  -- an earlier attempt succeeded late
      perform run_out(v_attempt);
      v_other := claim_again(v_task);
      perform store(v_attempt);
      v_attempt := v_other;
    when 'superseded, reported' then
      perform run_out(v_attempt);
      v_other := claim_again(v_task);
      perform store(v_attempt);
      perform report(v_other, 'cancelled');
      v_attempt := v_other;
  end case;
  return v_attempt;
end $$;

-- --- what must hold ------------------------------------------------------------------------------

-- The columns of a row that expected names are as it says.
create function scenario.row_is(found jsonb, expected jsonb, description text)
returns text
language sql
as $$
  select tap.is(
    (select jsonb_object_agg(f.key, f.value) from jsonb_each(found) f where expected ? f.key), expected, description)
$$;

create function scenario.task_is(task bigint, expected jsonb, description text)
returns text
language sql security definer
as $$
  select scenario.row_is((select to_jsonb(t) from lakequeue.tasks t where t.id = task), expected, description)
$$;

create function scenario.attempt_is(attempt bigint, expected jsonb, description text)
returns text
language sql security definer
as $$
  select scenario.row_is((select to_jsonb(a) from lakequeue.task_attempts a where a.id = attempt), expected, description)
$$;

-- Status of task and attempt in two words.
create function scenario.states(attempt bigint)
returns text
language sql security definer set search_path = lakequeue, pg_temp
as $$
  select t.status || ' ' || a.status from task_attempts a join tasks t on t.id = a.task_id where a.id = attempt
$$;

-- Everything that Lakequeue holds, in one number.
create function scenario.digest()
returns text
language plpgsql security definer set search_path = lakequeue, pg_temp
as $$
declare
  v_table regclass;
  v_rows text;
  v_all text := '';
begin
  for v_table in
    select c.oid from pg_class c where c.relnamespace = 'lakequeue'::regnamespace and c.relkind = 'r' order by c.relname
  loop
    execute format('select string_agg(to_jsonb(r)::text, '','' order by to_jsonb(r)::text) from %s r', v_table) into v_rows;
    v_all := v_all || v_table || coalesce(v_rows, '');
  end loop;
  return md5(v_all);
end $$;

-- How many rows of the table this transaction has read so far.
create function scenario.rows_read(relation regclass)
returns bigint
language sql volatile
as $$
  select coalesce(sum(coalesce(s.idx_tup_fetch, 0) + s.seq_tup_read), 0)::bigint from pg_stat_xact_user_tables s where s.relid = relation
$$;

-- How many of them the statement reads.
create function scenario.reads(relation regclass, statement text)
returns bigint
language plpgsql
as $$
declare
  v_before bigint := scenario.rows_read(relation);
begin
  execute statement;
  return scenario.rows_read(relation) - v_before;
end $$;

-- The next forty tasks and model calls, claimed by eight at most, do not happen to be those with which upkeep is done
-- (dequeue_tasks, reserve_tokens).
create function scenario.without_upkeep()
returns void
language plpgsql
as $$
declare
  v_sequence text;
begin
  foreach v_sequence in array array['lakequeue.tasks_id_seq', 'lakequeue.model_calls_id_seq'] loop
    perform setval(v_sequence, (
      with here as materialized (
        select nextval(v_sequence) as id
      ), upkeep as (
        select h.id + n as id from here h cross join generate_series(0, 100000) n where hashint8(h.id + n) & 63 < 8
      )
      select u.id from (select u.id, lead(u.id) over (order by u.id) as next from upkeep u) u where u.next > u.id + 40 order by u.id limit 1));
  end loop;
end $$;

-- How many pages a query touches, once its plans are kept.
create function scenario.pages(query text)
returns integer
language plpgsql
as $$
declare
  v_plan json;
begin
  for v_round in 1..2 loop
    execute 'explain (analyze, buffers, format json) ' || query into v_plan;
  end loop;
  return (v_plan #>> '{0,Plan,Shared Hit Blocks}')::integer + (v_plan #>> '{0,Plan,Shared Read Blocks}')::integer;
end $$;

-- The statement gives this and changes nothing at all.
create function scenario.says_and_changes_nothing(statement text, expected text, description text)
returns text
language plpgsql
as $$
declare
  v_before text := scenario.digest();
  v_said text;
begin
  execute statement into v_said;
  return tap.is(
    v_said || case when scenario.digest() = v_before then '' else ', but something changed' end, expected, description);
end $$;

-- The statement is refused with this SQLSTATE, a message and a hint.
create function scenario.refused(statement text, code text, description text)
returns text
language plpgsql
as $$
declare
  v_state text;
  v_message text;
  v_hint text;
begin
  begin
    execute statement;
  exception when others then
    get stacked diagnostics v_state = returned_sqlstate, v_message = message_text, v_hint = pg_exception_hint;
  end;
  return tap.is(
    coalesce(v_state, 'no error')
      || case when v_state not like 'LQ%' then ': ' || v_message when v_message = '' then ' without a message'
              when v_hint = '' then ' without a hint' else '' end,
    code, description);
end $$;

-- The statement is not permitted (42501) to this login.
create function scenario.not_for(login text, statement text)
returns text
language plpgsql
as $$
declare
  v_state text := 'no error';
begin
  execute format('set local session authorization %I', login);
  begin
    execute statement;
  exception when others then
    v_state := sqlstate;
  end;
  set local session authorization test_owner;
  return tap.is(v_state, '42501', login || ' may not call it');
end $$;

-- Rule 15: how what the deltas add up to differs from what a count of tasks and attempts, and of what was purged, gives;
-- null: not at all.
create function scenario.ledger_differences()
returns text
language sql security definer set search_path = lakequeue, pg_temp
as $$
  with ledger as (
    select s.agent_id, s.customer, s.status, s.day, s.bucket, sum(s.tasks) as tasks, sum(s.input_tokens) as input,
           sum(s.output_tokens) as output, sum(s.cached_tokens) as cached, sum(s.llm_cost) as cost, sum(s.ran) as ran,
           sum(s.priced) as priced, sum(s.input_told) as input_told, sum(s.output_told) as output_told,
           sum(s.cached_told) as cached_told, sum(s.cost_told) as cost_told, sum(s.billable) as billable
    from task_deltas d cross join lateral _delta_sides(d) s
    group by s.agent_id, s.customer, s.status, s.day, s.bucket
    having (sum(s.tasks), sum(s.input_tokens), sum(s.output_tokens), sum(s.cached_tokens), sum(s.llm_cost), sum(s.ran),
            sum(s.priced), sum(s.input_told), sum(s.output_told), sum(s.cached_told), sum(s.cost_told), sum(s.billable))
           <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
  ), counted as (
    select t.agent_id, t.customer, t.status, (t.finished_at at time zone i.time_zone)::date as day,
           case when t.status = 'completed' then ceil(
             ln(greatest(extract(epoch from t.finished_at - t.created_at)::float8, 0.001)) / ln(1.05::float8))::smallint end as bucket,
           count(*)::numeric as tasks, sum(u.input) as input, sum(u.output) as output, sum(u.cached) as cached, sum(u.cost) as cost,
           count(*) filter (where u.attempts > 0) as ran, count(*) filter (where u.attempts > 0 and u.prices = u.attempts) as priced,
           count(*) filter (where u.inputs > 0) as input_told, count(*) filter (where u.outputs > 0) as output_told,
           count(*) filter (where u.cacheds > 0) as cached_told, count(*) filter (where u.prices > 0) as cost_told,
           count(*) filter (where t.finished_at is not null and u.job_runs > 0) as billable
    from installation i cross join tasks t cross join lateral (
      select coalesce(sum(a.input_tokens), 0) as input, coalesce(sum(a.output_tokens), 0) as output,
             coalesce(sum(a.cached_tokens), 0) as cached, coalesce(sum(a.llm_cost), 0) as cost, count(*) as attempts,
             count(a.llm_cost) as prices, count(a.input_tokens) as inputs, count(a.output_tokens) as outputs,
             count(a.cached_tokens) as cacheds, count(*) filter (where a.run_id is not null and a.job_id is not null) as job_runs
      from task_attempts a where a.task_id = t.id) u
    group by 1, 2, 3, 4, 5
  ), truth as (
    select c.agent_id, c.customer, c.status, c.day, c.bucket, sum(c.tasks) as tasks, sum(c.input) as input,
           sum(c.output) as output, sum(c.cached) as cached, sum(c.cost) as cost, sum(c.ran) as ran, sum(c.priced) as priced,
           sum(c.input_told) as input_told, sum(c.output_told) as output_told, sum(c.cached_told) as cached_told,
           sum(c.cost_told) as cost_told, sum(c.billable) as billable
    from (table counted
          union all
          select p.agent_id, p.customer, p.status, _day(p.hour), p.bucket, p.tasks,
                 p.input_tokens, p.output_tokens, p.cached_tokens, p.llm_cost, p.ran, p.priced, p.input_told, p.output_told,
                 p.cached_told, p.cost_told, p.billable
          from purged_tasks p) c
    group by 1, 2, 3, 4, 5
  ), differences as (
    (select 'ledger' as side, l.* from ledger l except all select 'ledger', h.* from truth h)
    union all
    (select 'truth', h.* from truth h except all select 'truth', l.* from ledger l)
  )
  select case when not exists (select from truth) then 'nothing to count'
              else (select string_agg(d::text, '; ') from differences d) end
$$;

create function scenario.ledger_is_exact()
returns text
language sql
as $$ select tap.is(scenario.ledger_differences(), null, 'the deltas add up to what a count gives') $$;

-- --- costs ---------------------------------------------------------------------------------------

-- A task of an agent of its own that is a Databricks job; its only attempt had this run and ended so.
create function scenario.job_run(run bigint, llm_cost numeric default null, outcome text default 'success', job bigint default 7)
returns bigint
language plpgsql security definer set search_path = lakequeue, scenario, pg_temp
as $$
declare
  v_attempt bigint := start(1);
begin
  if job is not null then
    perform configure_agent(agent_of(task_of(v_attempt)), job_id => job);
    update task_attempts a set job_id = job where a.id = v_attempt;  -- as if it had been so at the claim
  end if;
  perform record_runs(array[v_attempt], array[run]);
  perform report(v_attempt, outcome, case when outcome = 'success' then '1'::json end, llm_cost => job_run.llm_cost);
  return v_attempt;
end $$;

-- A row of billing's answer.
create function scenario.usage(
  name text, cost numeric, sku text default 'JOBS', currency text default 'USD', day date default '2026-01-01', kind text default 'run')
returns json
language sql
as $$
  select json_build_object('kind', kind, 'name', name, 'sku', sku, 'unit', 'DBU', 'day', day, 'currency', currency,
                           'quantity', '2', 'cost', cost::text)
$$;

-- Asks billing, which answers with these rows.
create function scenario.bill(variadic rows json[] default '{}')
returns void
language plpgsql set search_path = lakequeue, scenario, pg_temp
as $$
begin
  perform record_compute_cost((select b.fetch_id from begin_compute_fetch('ops') b), 'the workspace', array_to_json(bill.rows));
end $$;
