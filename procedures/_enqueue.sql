-- What enqueue_task and enqueue_tasks do: one document per element of the arrays, which are equally long. A document whose
-- dedup_key a task of the same agent and customer holds that is not failed or cancelled gets that task. One that runs and was
-- asked to cancel gives its key up: whoever submits the document once more wants it done.
--
-- agent: its name. customer: by default the extraction's. extraction: its id. names, refusals: only for an extraction; a
-- document with a refusal gets no task. The others: see enqueue_task.
-- Returns two arrays, in order: task_ids (null: refused), and new_ids: the id that each document has if its task is new.
-- Errors, locks: see enqueue_tasks.
create or replace function lakequeue._enqueue(
  agent text, customer text, extraction bigint, names text[], paths text[], refusals text[], priorities integer[],
  payloads jsonb[], dedup_keys text[], page_counts integer[], document_bytes bigint[],
  out task_ids bigint[], out new_ids bigint[])
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_start record;
  v_agent agents;
  v_customer text := coalesce(_enqueue.customer, '');
  v_submitter text;
  v_all_known boolean;
  v_created bigint;
begin
  if array_length(array_remove(payloads, null), 1) > 0 then
    perform _check_json(p.payload) from unnest(payloads) p(payload);
  end if;
  if extraction is not null then
    select coalesce(_enqueue.customer, e.customer), e.submitted_by into v_customer, v_submitter
    from _extraction(extraction) e;
  end if;
  v_submitter := _actor(v_submitter);  -- the web process names who submits when it opens the extraction

  -- The clock is read with a lock on the table in hand: _advance_lanes waits for those who had it before it noted the time, and
  -- sees to those who read an earlier time afterwards.
  lock table tasks in row exclusive mode;
  select a as agent, c.at, case when current_setting('transaction_isolation') <> 'read committed' then -1
                                when c.at <= k.noted_at then k.lane
                                else 0 end as lane
  into v_start
  from (select _now() as at offset 0) c
  cross join agents a
  left join lateral (
    select b.noted_at, b.lane from claim_books b where b.agent_id = a.id order by b.no desc limit 1) k on true
  where a.name = _enqueue.agent;
  v_agent := coalesce(v_start.agent, _agent(agent));

  -- Drawn beforehand, so that a document is known again by its id: ascending, in the order of the call.
  if cardinality(paths) = 1 then
    new_ids := array[nextval('tasks_id_seq')];
  else
    new_ids := array(select nextval('tasks_id_seq') from unnest(paths));
  end if;

  -- A dedup_key's holder may end failed or cancelled between the insert that met it and the look for it, or be asked to cancel.
  -- Then all is undone and done again: with some keys in hand, a call that took another one, or a task, out of their order
  -- could deadlock.
  for v_round in 1..5 loop
    begin
      if v_round > 1 then
        update tasks t set dedup_key = null
        where t.status = 'processing' and t.cancel_requested_at is not null
          and t.id = any(array(
            select l.id from tasks l
            where l.id = any(array(
              select h.id
              from unnest(dedup_keys) k(key)
              cross join lateral (
                select t.id, t.status, t.cancel_requested_at from tasks t
                where t.agent_id = v_agent.id and t.customer = v_customer and t.dedup_key = k.key
                  and t.status not in ('failed', 'cancelled')
                limit 1) h
              where h.status = 'processing' and h.cancel_requested_at is not null))
            order by l.id
            for no key update));
      end if;

      -- ON CONFLICT writes a record more for every row, so only where a key may be met.
      if cardinality(array_remove(dedup_keys, null)) = 0 then
        insert into tasks (
          id, agent_id, extraction_id, customer, document_path, payload, priority, created_at, lane, estimated_tokens,
          page_count, document_bytes)
        overriding system value
        select d.new_id, v_agent.id, extraction, v_customer, coalesce(d.path, ''), d.payload, d.priority, v_start.at, v_start.lane,
               _new_estimate(v_agent, d.page_count, d.bytes), d.page_count, d.bytes
        from unnest(new_ids, paths, refusals, priorities, payloads, page_counts, document_bytes)
          as d(new_id, path, refusal, priority, payload, page_count, bytes)
        where d.refusal is null;
      else
        insert into tasks (
          id, agent_id, extraction_id, customer, document_path, payload, dedup_key, priority, created_at, lane,
          estimated_tokens, page_count, document_bytes)
        overriding system value
        select d.new_id, v_agent.id, extraction, v_customer, coalesce(d.path, ''), d.payload, d.dedup_key, d.priority, v_start.at, v_start.lane,
               _new_estimate(v_agent, d.page_count, d.bytes), d.page_count, d.bytes
        from unnest(new_ids, paths, refusals, priorities, payloads, dedup_keys, page_counts, document_bytes)
          as d(new_id, path, refusal, priority, payload, dedup_key, page_count, bytes)
        where d.refusal is null
        order by d.dedup_key, d.new_id
        on conflict do nothing;
      end if;
      get diagnostics v_created = row_count;

      if v_created = cardinality(new_ids) then
        task_ids := new_ids;
      else
        -- LIMIT keeps these probes of an index per document, whatever the statistics say: a join may read all tasks.
        select coalesce(array_agg(coalesce(own.id, holder.id) order by d.position), '{}'),
               coalesce(bool_and(d.refusal is not null or coalesce(own.id, holder.id) is not null), true)
        into task_ids, v_all_known
        from unnest(new_ids, refusals, dedup_keys) with ordinality as d(new_id, refusal, dedup_key, "position")
        left join lateral (
          select t.id from tasks t where t.id = d.new_id limit 1) own on true
        left join lateral (
          select t.id, t.status, t.cancel_requested_at from tasks t
          where t.agent_id = v_agent.id and t.customer = v_customer and t.dedup_key = d.dedup_key
            and t.status not in ('failed', 'cancelled')
          limit 1) holder on own.id is null and d.refusal is null
            and (holder.status <> 'processing' or holder.cancel_requested_at is null);
        if not v_all_known then
          raise exception using errcode = 'LQ409', message = 'the tasks that hold these dedup_keys keep changing',
            hint = 'Nothing was enqueued. Call again.';
        end if;
      end if;

      if extraction is not null then
        insert into extraction_documents (extraction_id, name, task_id, refusal)
        select extraction, coalesce(d.name, ''), d.task_id, left(d.refusal, 4000)
        from unnest(names, refusals, task_ids) with ordinality as d(name, refusal, task_id, "position")
        order by d.position;
      end if;
      if v_created > 0 then
        insert into task_deltas (agent_id, customer, tasks, to_status)
        values (v_agent.id, v_customer, v_created, 'enqueued');
      end if;
      exit;
    exception
      when sqlstate 'LQ409' then
        if v_round = 5 then
          raise;
        end if;
      when check_violation or not_null_violation or numeric_value_out_of_range then
        raise exception using errcode = 'LQ400', message = format('a document cannot be enqueued: %s', left(sqlerrm, 300)),
          hint = 'Nothing was enqueued. Paths are 1 to 4096 characters, priorities 0 to 9, payloads at most 8 kB;'
            ' pages and bytes cannot be negative, nor make more than 10^12 tokens.';
    end;
  end loop;
end $$;

comment on function lakequeue._enqueue(text, text, bigint, text[], text[], text[], integer[], jsonb[], text[], integer[],
  bigint[]) is 'What enqueue_task and enqueue_tasks do, one document per element of the arrays.';
