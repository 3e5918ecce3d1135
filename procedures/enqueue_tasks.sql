-- Enqueues many documents in one call, and writes them down as an extraction's documents. A document whose dedup_key
-- a task of the same agent and customer holds that is not failed or cancelled gets that task instead of a new one.
--
-- agent: its name.
-- documents: JSON array of objects: document_path, and optionally name (as the submitter knows it; by default the
--   path), priority, payload, dedup_key, page_count, document_bytes; or name and refusal for a document that was
--   refused: it gets no task, but stands in the extraction with its reason.
-- priority: 0 to 9, for documents that name none. customer: by default the extraction's. extraction: its id.
-- Returns a row per document, in order: position from 1, task_id (null if refused), created (false: existing task).
-- Errors: LQ404 unknown agent or extraction; LQ403 the web process without an extraction that an operator submitted;
-- LQ422 documents of the wrong shape, or a payload that cannot be read (_check_json); LQ400 a value out of range;
-- LQ409 the task that held a dedup_key kept vanishing.
-- One bad document refuses the whole call: nothing is enqueued.
-- Locks: waits for an open transaction that enqueues the same dedup_key. Keys are inserted in order, so that two
-- calls cannot deadlock.
create or replace function lakequeue.enqueue_tasks(
  agent text, documents json, priority integer default 5, customer text default null, extraction bigint default null)
returns table ("position" integer, task_id bigint, created boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_agent agents := _agent(agent);
  v_documents jsonb := _clean_json(documents);
  v_customer text := coalesce(enqueue_tasks.customer, '');
  v_submitter text;
  v_now timestamptz := _now();
  v_new_ids bigint[];
  v_task_ids bigint[];
  v_all_known boolean;
  v_created bigint;
begin
  if jsonb_typeof(v_documents) is distinct from 'array' then
    raise exception using errcode = 'LQ422', message = 'documents must be a JSON array of objects',
      hint = 'Example: [{"document_path": "/Volumes/main/docs/a.pdf", "page_count": 3}].';
  end if;
  perform _check_json(jsonb_path_query_array(v_documents, '$[*].payload'));
  if extraction is not null then
    select coalesce(enqueue_tasks.customer, e.customer), e.submitted_by into v_customer, v_submitter
    from extractions e where e.id = extraction;
    if not found then
      raise exception using errcode = 'LQ404', message = format('there is no extraction %s', extraction),
        hint = 'Open one with lakequeue.create_extraction(name).';
    end if;
  end if;
  perform _actor(v_submitter);  -- the web process names who submits when it opens the extraction

  -- Ids are drawn beforehand, so that a document is known again by its id: ascending, in the order of the call.
  v_new_ids := array(select nextval('tasks_id_seq') from jsonb_array_elements(v_documents));

  -- A dedup_key's holder may end failed or cancelled between the insert that met it and the look for it. Then all is
  -- undone and done again: with some keys in hand, a call that took another one out of their order could deadlock.
  for v_round in 1..5 loop
    begin
      insert into tasks (
        id, agent_id, extraction_id, customer, document_path, payload, dedup_key, priority, created_at,
        estimated_tokens, page_count, document_bytes)
      overriding system value
      select d.new_id, v_agent.id, extraction, v_customer, coalesce(d.document_path, ''), d.payload, d.dedup_key,
             coalesce(d.priority, enqueue_tasks.priority), v_now,
             estimate_tokens(agent, d.page_count, d.document_bytes), d.page_count, d.document_bytes
      from rows from (_documents(v_documents), unnest(v_new_ids))
        as d("position", name, document_path, refusal, priority, payload, dedup_key, page_count, document_bytes, new_id)
      where d.refusal is null
      order by d.dedup_key, d.new_id
      on conflict do nothing;

      -- LIMIT keeps these probes of an index per document, whatever the statistics say: a join may read all tasks.
      select coalesce(array_agg(coalesce(own.id, holder.id) order by d.position), '{}'),
             coalesce(bool_and(d.refusal is not null or coalesce(own.id, holder.id) is not null), true)
      into v_task_ids, v_all_known
      from rows from (_documents(v_documents), unnest(v_new_ids))
        as d("position", name, document_path, refusal, priority, payload, dedup_key, page_count, document_bytes, new_id)
      left join lateral (
        select t.id from tasks t where t.id = d.new_id limit 1) own on true
      left join lateral (
        select t.id from tasks t
        where t.agent_id = v_agent.id and t.customer = v_customer and t.dedup_key = d.dedup_key
          and t.status not in ('failed', 'cancelled')
        limit 1) holder on own.id is null and d.refusal is null;
      if not v_all_known then
        raise exception using errcode = 'LQ409', message = 'the tasks that hold these dedup_keys keep changing',
          hint = 'Nothing was enqueued. Call again.';
      end if;

      if extraction is not null then
        insert into extraction_documents (extraction_id, name, task_id, refusal)
        select extraction, coalesce(d.name, ''), d.task_id, left(d.refusal, 4000)
        from rows from (_documents(v_documents), unnest(v_task_ids))
          as d("position", name, document_path, refusal, priority, payload, dedup_key, page_count, document_bytes, task_id)
        order by d.position;
      end if;

      select count(*) into v_created from unnest(v_task_ids, v_new_ids) u(task_id, new_id) where u.task_id = u.new_id;
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
          hint = 'Nothing was enqueued. Paths are 1 to 4096 characters, priorities 0 to 9, payloads at most 8 kB.';
    end;
  end loop;

  return query
    select u.number::integer, u.task_id, u.task_id is not distinct from u.new_id
    from unnest(v_task_ids, v_new_ids) with ordinality u(task_id, new_id, number)
    order by u.number;
end $$;

comment on function lakequeue.enqueue_tasks(text, json, integer, text, bigint) is
  'Enqueues many documents in one call; a dedup_key returns the task that holds it.';
