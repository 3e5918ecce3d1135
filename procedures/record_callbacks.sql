-- Many reports at once, for a web process that collects them: each is answered by itself, as record_callback would, and
-- one that is refused stops none of the others.
--
-- The plain ones among them are recorded in one pass (_complete), unless a report cannot even be read; the others one by
-- one, in the order of their tasks. A task with several reports is not plain, nor is one that follows a failure of its
-- agent: the breaker counts in that order.
--
-- callbacks: JSON array of objects with record_callback's parameters as keys (attempt: digits and nothing else, token, outcome, ...).
-- Returns a row per report, in order: its answer, or refused with the reason in message.
-- Errors: LQ428 not READ COMMITTED; LQ413 more than 64 MB; LQ422 no array, an element that is no object, or what cannot be stored
--   (_clean_json); LQ400 more than 1,000.
-- Locks: the rows of the tasks whose tokens are right, in id order, so that two calls cannot deadlock.
create or replace function lakequeue.record_callbacks(callbacks json)
returns table ("position" integer, attempt_id bigint, answer text, message text)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_callbacks jsonb := _clean_json(callbacks);
  v_attempts bigint[];
  v_tasks bigint[];
  v_answers text[];
  v_messages text[];
  v_accepted bigint[];
  v_row record;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _refuse_snapshot('record_callbacks');
  end if;
  if jsonb_typeof(v_callbacks) is distinct from 'array'
     or exists (select from jsonb_array_elements(v_callbacks) c where jsonb_typeof(c) <> 'object') then
    raise exception using errcode = 'LQ422', message = 'callbacks must be a JSON array of objects',
      hint = 'Example: [{"attempt": 1, "token": "...", "outcome": "success"}].';
  end if;
  if jsonb_array_length(v_callbacks) > 1000 then
    raise exception using errcode = 'LQ400', message = 'at most 1,000 callbacks a call', hint = 'Send them in parts.';
  end if;
  v_attempts := array(
    select _whole_number(c.value ->> 'attempt')
    from jsonb_array_elements(v_callbacks) with ordinality c(value, number)
    order by c.number);
  v_tasks := array(  -- a wrong token locks nothing
    select a.task_id
    from jsonb_array_elements(v_callbacks) with ordinality c(value, number)
    cross join lateral (select x.id, x.task_id, x.run_key from task_attempts x where x.id = v_attempts[c.number] limit 1) a
    cross join installation i
    where _token_fits(a.id, a.run_key, c.value ->> 'token', i.secret));
  begin
    perform from tasks t where t.id = any(v_tasks) order by t.id for no key update;
    select _complete(
             array_agg(c.attempt), array_agg(c.result), array_agg(c.confidence), array_agg(c.input_tokens),
             array_agg(c.output_tokens), array_agg(c.cached_tokens), array_agg(c.llm_cost), array_agg(c.usage_complete),
             array_agg(c.run_id), array_agg(c.trace_id))
    into v_accepted
    from (
      select r.*, a.task_id, count(*) over (partition by a.task_id) as reports,
             min(a.task_id) filter (where r.outcome = 'failure') over (partition by a.agent_id) as first_failure
      from jsonb_to_recordset(v_callbacks) as r(
        attempt bigint, outcome text, result jsonb, confidence double precision, input_tokens bigint, output_tokens bigint,
        cached_tokens bigint, llm_cost numeric, usage_complete boolean, run_id bigint, trace_id text, retry_after text)
      cross join lateral (select x.task_id, x.agent_id from task_attempts x where x.id = r.attempt limit 1) a) c
    where c.outcome = 'success' and c.result is not null and c.retry_after is null and c.reports = 1
      and (c.first_failure > c.task_id) is not false
      and (c.task_id in (select unnest(v_tasks))) is true;  -- the token of its one report fits (by hash, not one by one)
  exception when others then
    -- Only what a report itself is guilty of; a deadlock or a full disk is not.
    if sqlstate not like 'LQ%' and sqlstate not like '22%' then
      raise;
    end if;
    perform from tasks t where t.id = any(v_tasks) order by t.id for no key update;  -- these were undone with the pass
  end;
  v_answers := array_fill(null::text, array[jsonb_array_length(v_callbacks)]);
  v_messages := v_answers;

  for v_row in
    select c.number::integer as number, c.value, a.task_id
    from jsonb_array_elements(v_callbacks) with ordinality c(value, number)
    left join lateral (select x.task_id from task_attempts x where x.id = v_attempts[c.number] limit 1) a on true
    where (v_attempts[c.number] = any(v_accepted)) is not true
    order by a.task_id nulls last, c.number
  loop
    begin
      v_answers[v_row.number] := (
        select record_callback(
          v_attempts[v_row.number], c.token, c.outcome, c.result, c.confidence, c.input_tokens, c.output_tokens,
          c.cached_tokens, c.llm_cost, c.usage_complete, c.error_class, c.error, c.run_id, c.trace_id, c.retry_after)
        from jsonb_to_record(v_row.value) as c(
          token text, outcome text, result json, confidence double precision, input_tokens bigint, output_tokens bigint,
          cached_tokens bigint, llm_cost numeric, usage_complete boolean, error_class text, error json, run_id bigint,
          trace_id text, retry_after interval));
    exception when others then
      if sqlstate not like 'LQ%' and sqlstate not like '22%' then
        raise;
      end if;
      v_answers[v_row.number] := 'refused';
      v_messages[v_row.number] := left(sqlerrm, 500);
    end;
  end loop;

  return query
    select u.number::integer, u.attempt, case when u.attempt = any(v_accepted) then 'accepted' else u.answer end, u.message
    from unnest(v_attempts, v_answers, v_messages) with ordinality u(attempt, answer, message, number)
    order by u.number;
end $$;

comment on function lakequeue.record_callbacks(json) is 'Many reports at once, each answered by itself.';
