-- The documents of an enqueue_tasks call as rows, in order. Errors: LQ422 for anything of the wrong shape, a misspelt
-- key included.
create or replace function lakequeue._documents(documents jsonb)
returns table (
  "position" integer, name text, document_path text, refusal text, priority integer, payload jsonb, dedup_key text,
  page_count integer, document_bytes bigint)
language plpgsql immutable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  c_strings constant text[] := array['name', 'document_path', 'refusal', 'dedup_key'];
  c_others constant text[] := array['priority', 'payload', 'page_count', 'document_bytes'];
  v_problem text;
begin
  select format(case when k.key = any(c_strings) then '"%2$s" of document %1$s is no string'
                     else 'document %1$s has the unknown key "%2$s"' end, d.number, k.key)
  into v_problem
  from jsonb_array_elements(documents) with ordinality d(value, number)
  cross join jsonb_each(d.value) k(key, value)
  where k.key <> all(c_strings || c_others)
     or (k.key = any(c_strings) and jsonb_typeof(k.value) not in ('string', 'null'))
  limit 1;
  if v_problem is null then
    return query
      select d.number::integer, coalesce(d.name, d.document_path), d.document_path, d.refusal, d.priority, d.payload,
             d.dedup_key, d.page_count, d.document_bytes
      from rows from (jsonb_to_recordset(documents) as (
        name text, document_path text, refusal text, priority integer, payload jsonb, dedup_key text,
        page_count integer, document_bytes bigint)) with ordinality
        as d(name, document_path, refusal, priority, payload, dedup_key, page_count, document_bytes, number)
      order by d.number;
    return;
  end if;
  raise exception using errcode = 'LQ422', message = v_problem,
    hint = 'Keys: document_path, name, priority, payload, dedup_key, page_count, document_bytes; or name and refusal.';
exception when data_exception then
  raise exception using errcode = 'LQ422', message = format('documents have the wrong shape: %s', left(sqlerrm, 300)),
    hint = 'Example: [{"document_path": "/Volumes/main/docs/a.pdf", "page_count": 3}].';
end $$;

comment on function lakequeue._documents(jsonb) is 'The documents of an enqueue_tasks call as rows.';
