-- Rule 13 for every entry: each parameter of each public function, read from the catalog so that a new one is met too,
-- gets each hostile value of its type, with every other parameter as it should be. Whatever comes back is an answer or a
-- refusal of the product's own (LQ4xx, with a message and a hint). What was taken can be read again by everything that
-- reads, holds nothing that a client cannot read (a NaN, a time beyond the year 9999), and stops no worker. Each try is
-- undone before the next.
begin;
\ir scenarios.sql
\ir calls.sql

select plan(3);

-- What there is beside the task that runs, the one that waits and the fetch of costs: one that is completed, a refusal.
select report(start(), 'success', '{"fields": {}}', 0.5, 10, 10) \gset
select count(*) from enqueue_tasks(given('agent'), '[{"name": "c", "refusal": "r"}]', extraction => given('extraction')::bigint) \gset

-- --- the hostile values, by type, as SQL ---------------------------------------------------------

-- telling: what could be a trap for those who read, not only for the function itself.
create table scenario.hostile (type text, value text, telling boolean);

insert into scenario.hostile
select t.type, v.value, t.type not in ('text', 'boolean', 'uuid', 'date') and v.value not in ('null', '0', '-1') or v.value ~ 'FFFE'
from (values
  ('text', array[
    $v$''$v$, $v$' '$v$, $v$E' \t\r\n'$v$, $v$U&'\FEFF\200B'$v$, $v$U&'a\202Eb\2066c\2069'$v$, $v$U&'\FFFE\FFFF\+10FFFF'$v$,
    $v$E'\x01\x7f\r\n'$v$, $v$'it''s "; drop table lakequeue.tasks; --'$v$, $v$'%_\ [a-z](?:'$v$, $v$'\u0000'$v$,
    $v$'9223372036854775808'$v$, $v$repeat('ä', 5000)$v$, $v$repeat('x', 300000)$v$,
    -- what does not compress is too large for an index at 2,704 bytes
    $v$(select string_agg(sha512(n::text::bytea)::text, '') from generate_series(1, 100) n)$v$]),
  ('json', array[
    $v$'"\u0000"'$v$, $v$'{"message": "\u0000 \ud800", "\udc00": {"\u0000": 1}}'$v$, $v$'{"a": 1, "a": 2}'$v$, $v$'{}'$v$,
    $v$'[]'$v$, $v$'[null]'$v$, $v$'[[]]'$v$, $v$'[{}]'$v$, $v$'null'$v$, $v$'true'$v$, $v$'""'$v$, $v$'-0'$v$, $v$'1e400'$v$,
    $v$'1e200000'$v$, $v$'{"message": null}'$v$, $v$'{"message": {"a": [1]}}'$v$,
    $v$(repeat('[', 3000) || repeat(']', 3000))::json$v$, $v$(repeat('{"a":', 3000) || '1' || repeat('}', 3000))::json$v$,
    $v$to_json(repeat('x', 300000))$v$,
    $v$(select json_agg(json_build_object('k' || n, n)) from generate_series(1, 2000) n)$v$]),
  ('bigint', array['0', '-1', '9223372036854775807', '-9223372036854775808', '1000000000001']),
  ('integer', array['0', '-1', '2147483647', '-2147483648']),
  ('numeric', array['0', '-1', $v$'NaN'$v$, $v$'Infinity'$v$, $v$'-Infinity'$v$, '1e400', '1e-400', '0.1234567890123456789']),
  ('real', array['0', '-1', $v$'NaN'$v$, $v$'Infinity'$v$, $v$'-Infinity'$v$, '3e38', '1e-40']),
  ('double precision', array['0', '-1', $v$'NaN'$v$, $v$'Infinity'$v$, $v$'-Infinity'$v$, '1e300', '1e-300']),
  ('boolean', array['true', 'false']),
  ('date', array[$v$'0001-01-01'$v$, $v$'9999-12-31'$v$, $v$'4713-01-01 BC'$v$, $v$'5874897-12-31'$v$, $v$'infinity'$v$, $v$'-infinity'$v$]),
  ('timestamp with time zone', array[
    $v$'0001-01-01'$v$, $v$'9999-12-31 23:59:59+00'$v$, $v$'4713-01-02 BC'$v$, $v$'294276-12-31'$v$, $v$'infinity'$v$, $v$'-infinity'$v$]),
  ('interval', array[
    $v$'0'$v$, $v$'-1 second'$v$, $v$'1 microsecond'$v$, $v$'1 month -31 days'$v$, $v$'100000 years'$v$, $v$'-100000 years'$v$,
    $v$'178000000 years'$v$, $v$'-178000000 years'$v$]
    || case when current_setting('server_version_num')::integer >= 170000
            then array[$v$'infinity'$v$, $v$'-infinity'$v$] else '{}' end),
  ('uuid', array[$v$'00000000-0000-0000-0000-000000000000'$v$])) as t(type, "values")
cross join unnest(t."values" || array['null']) as v(value);

insert into scenario.hostile
select 'jsonb', format('(%s)::jsonb', h.value), h.telling
from scenario.hostile h
where h.type = 'json' and h.value !~ 'u0000|1e200000';

insert into scenario.hostile
select a.type || '[]', v.value, false
from (values ('text'), ('bigint')) as a(type)
cross join lateral (
  select format('array[%s]::%s[]', h.value, a.type) from scenario.hostile h where h.type = a.type
  union all
  select v from unnest(array['null', '''{}''', '''{{1,2},{3,4}}''', '''[5:6]={1,2}''',
                             format('array(select n from generate_series(1, 5000) n)::%s[]', a.type)]) v
) as v(value);

insert into scenario.hostile
select 'uuid[]', v.value, false
from unnest(array[
  'null', '''{}''', 'array[null]::uuid[]', 'array[gen_random_uuid()]', 'array[[gen_random_uuid()], [gen_random_uuid()]]',
  'array(select gen_random_uuid() from generate_series(1, 5000))']) v(value);

-- --- trying one ----------------------------------------------------------------------------------

-- A NaN, or a time or a length that Python has no type for.
create function scenario.unreadable(found text)
returns text
language sql
as $$ select (regexp_match(found, '"(?:NaN|-?Infinity|-?infinity|[^"\\]* BC|\d{5,}-\d\d-\d\d[^"\\]*|-?\d{7,} (?:years|days)[^"\\]*)"'))[1] $$;

-- Everything that reads, as JSON; and the workers' round.
create function scenario.look()
returns text
language plpgsql
as $$
declare
  v_task bigint;
  v_found text := '';
  v_rows text;
  v_reads constant text[] := array[
    'list_tasks()', 'list_events()', 'list_extractions()', 'list_workers()', 'agent_status()', 'agent_pace()',
    'explain_throttles()', 'needs_attention()', 'queue_metrics()', 'queue_history()', 'response_history()',
    'response_summary()', 'confidence_summary()', 'cost_report()', 'endpoint_cost_report()', 'compute_fetch_status()',
    'reporting_time()', 'configuration()', 'runs_to_price()', 'task_costs', 'sweep_leases()', 'dequeue_tasks(''w3'')',
    'runs_to_check(''w'')', 'attempts_to_settle()', 'adopt_attempts(''w'')', 'fold_rollups()'];
begin
  for i in 1..cardinality(v_reads) loop
    execute format('select coalesce(json_agg(to_json(r))::text, '''') from lakequeue.%s r', v_reads[i]) into v_rows;
    v_found := v_found || left(v_rows, 100000);
  end loop;
  for v_task in select t.id from lakequeue.tasks t order by t.id desc limit 4 loop
    v_found := v_found || left(lakequeue.task_detail(v_task)::text, 100000);
  end loop;
  select json_agg(to_json(d))::text into v_rows
  from lakequeue.extractions e cross join lateral lakequeue.list_extraction_documents(e.id) d;
  return v_found || left(v_rows, 100000);
end $$;

-- How a call went: accepted, refused, or what is wrong. Nothing of it stays.
create function scenario.try(call text, writes boolean)
returns text
language plpgsql
as $$
declare
  v_answer text;
  v_found text;
  v_answered boolean := false;
  v_hint text;
begin
  execute format('select json_agg(to_json(r))::text from (%s) r', call) into v_answer;
  v_answered := true;
  v_found := unreadable(left(v_answer, 100000));
  if writes and current_setting('server_version_num')::integer >= 170000 then  -- once is enough
    v_found := coalesce(v_found, unreadable(look()));
  end if;
  raise exception using errcode = 'UNDO0', message = coalesce('shows ' || v_found, 'accepted');
exception when others then
  get stacked diagnostics v_hint = pg_exception_hint;
  return case
    when sqlstate = 'UNDO0' then sqlerrm
    when v_answered then format('then %s: %s', sqlstate, left(sqlerrm, 150))
    when sqlstate not like 'LQ4__' then format('%s: %s', sqlstate, left(sqlerrm, 150))
    when v_hint = '' then 'no hint: ' || left(sqlerrm, 150)
    when length(sqlerrm) > 1000 then format('%s with a message of %s characters', sqlstate, length(sqlerrm))
    else 'refused' end;
end $$;

-- --- every parameter of every public function ----------------------------------------------------

create table scenario.tried (
  function text, parameter text, value text, answer text, at timestamptz default clock_timestamp());

insert into scenario.tried
select f.name, null, call(f.oid), try(call(f.oid), true)
from scenario.public_function f;

select is_empty($$select function, value, answer from scenario.tried where answer is distinct from 'accepted'$$,
  'each function takes what it should get, and everything can be read afterwards');

select format($$
    insert into scenario.tried
    select %L, p.name, h.value, try(call(%2$s, p.name, h.value), %3$L and h.telling)
    from parameters(%2$s) p left join scenario.hostile h on h.type = p.type$$, f.name, f.oid, c.provolatile = 'v')
from scenario.public_function f
join pg_proc c using (oid)
\gexec

-- 50 MB of text; what is beyond 64 MB of JSON: test__clean_json.sql.
insert into scenario.tried
select f.name, v.parameter, v.value, try(call(f.oid, v.parameter, v.value), false)
from (values
  ('record_callback', 'error', $$to_json(repeat('x', 50000000))$$), ('record_callback', 'trace_id', $$repeat('x', 50000000)$$),
  ('create_extraction', 'name', $$repeat('x', 50000000)$$)
) v(function, parameter, value)
join scenario.public_function f on f.name = v.function;

select is_empty($$
  select function, parameter, left(value, 50), answer from scenario.tried
  where value is null or answer not in ('accepted', 'refused')
$$, 'each answers or refuses every value of every type there is, and what it took can be read');

-- --- every key of the JSON that functions take ---------------------------------------------------

create table scenario.keys (function text, call text, keys text[]);

insert into scenario.keys
select k.function, format('select * from lakequeue.%s(%s)', k.function, k.arguments), k.keys
from (values
  ('enqueue_tasks',
   format($$%L, json_build_array(json_build_object('document_path', '/x.pdf')::jsonb || %%s), extraction => %s$$,
          given('agent'), given('extraction')),
   '{document_path,name,refusal,priority,payload,dedup_key,page_count,document_bytes}'::text[]),
  ('record_compute_cost',
   format($$%s, '1', json_build_array(json_build_object('kind', 'run', 'name', '1', 'sku', 's',
            'unit', 'u', 'day', '2026-01-01', 'currency', 'USD', 'quantity', '1', 'cost', '1')::jsonb || %%s)$$, given('fetch_id')),
   '{kind,name,sku,unit,day,currency,quantity,cost}')) k(function, arguments, keys)
union all
select 'record_callbacks',
       format($$select * from lakequeue.record_callbacks(json_build_array(
                  json_build_object('attempt', %s, 'token', %L, 'outcome', '%s')::jsonb || %%s))$$,
              given('attempt'), given('token'), o.outcome), o.keys
from (values
  ('success', '{attempt,token,outcome,result,confidence,input_tokens,output_tokens,cached_tokens,llm_cost,usage_complete,run_id,trace_id}'::text[]),
  ('rate_limited', '{error_class,error,retry_after}')) o(outcome, keys);

insert into scenario.tried
select k.function, key, v.value, try(format(k.call, format('jsonb_build_object(%L, %s)', key, v.value)), v.telling and k.function = 'enqueue_tasks')
from scenario.keys k
cross join unnest(k.keys) key
cross join (
  select h.value, h.telling from scenario.hostile h where h.type = 'jsonb'
  union all
  select format('to_json((%s)::text)', h.value), false from scenario.hostile h
  where h.type = 'text' and h.value ~ '202E|FFFE|sha512|92233|^''''$' or h.type in ('numeric', 'date')) v;

select is_empty($$
  select function, parameter, left(value, 50), answer from scenario.tried
  where value is null or answer not in ('accepted', 'refused')
$$, 'so does each key of the JSON that functions take');

select * from finish();
rollback;
