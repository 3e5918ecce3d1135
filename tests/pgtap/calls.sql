-- Included after scenarios.sql (`\ir calls.sql`): a call of every public function, made from the catalog, with values that
-- mean something, so that it gets as far as it can: each is accepted (test_hostile_values.sql checks it). A function with a
-- new parameter needs a value here if null does not do.
create table scenario.given (parameter text not null, type text, value text not null, unique nulls not distinct (parameter, type));

do $$
declare
  v_attempt bigint := scenario.start();
  v_task bigint := scenario.task_of(v_attempt);
  v_agent text := scenario.agent_of(v_task);
  v_token text := scenario.token(v_attempt);
  v_extraction bigint := lakequeue.create_extraction('an extraction', 'acme', 'ops');
  v_billed text := scenario.agent_of(scenario.task_of(scenario.job_run(9)));
  v_waiting bigint;
begin
  perform lakequeue.configure_agent(v_agent, max_tpm => 1000000, reserves_calls => true);
  perform lakequeue.reserve_tokens(v_attempt, v_token, 1000, 10, '11111111-1111-1111-1111-111111111111');
  select e.task_id into v_waiting
  from lakequeue.enqueue_tasks(v_agent, '[{"document_path": "/b.pdf"}]', extraction => v_extraction) e;
  insert into scenario.given values
    ('agent', null, v_agent), ('agents', null, array[v_agent, v_billed]), ('endpoint', null, v_agent),
    ('model_endpoint', null, v_agent), ('task', null, v_waiting), ('tasks', null, array[v_waiting]), ('extraction', null, v_extraction), ('name', null, 'March'),
    ('attempt', null, v_attempt), ('attempts', null, array[v_attempt]), ('token', null, v_token), ('tokens', null, array[v_token]),
    ('worker', null, 'w1'), ('host', null, 'h'), ('pid', null, 1), ('version', null, '1'), ('relay', null, 'local'),
    ('actor', null, 'ops'), ('reason', null, 'why'), ('identity', null, 'ann'), ('role', null, 'operator'), ('time_zone', null, 'UTC'),
    ('customer', null, 'acme'),
    ('submitted_by', null, 'ops'), ('document_path', null, '/c.pdf'), ('priority', null, 7), ('dedup_key', null, 'k'), ('document', null, 'pdf'),
    ('documents', null, '[{"document_path": "/§", "name": "§", "dedup_key": "§", "payload": {"§": "§"}}, {"name": "§", "refusal": "§"}]'),
    ('payload', null, '{"§": ["§"]}'), ('parameters', null, '{"§": ["§"]}'), ('result', null, '{"§": ["§"]}'), ('error', null, '{"message": "§"}'),
    ('callbacks', null, jsonb_build_array(jsonb_build_object(
      'attempt', v_attempt, 'token', v_token, 'outcome', 'failure', 'error_class', '§', 'error', '§', 'trace_id', '§'))),
    ('outcome', null, 'failure'), ('error_class', null, 'c'), ('trace_id', null, 'tr-1'), ('run_id', null, 7), ('run_ids', null, '{7}'),
    ('run_keys', null, '{11111111-1111-1111-1111-111111111111}'), ('durable', null, true),
    ('call', null, '11111111-1111-1111-1111-111111111111'), ('max_output_tokens', null, 10),
    ('input_tokens', 'bigint[]', '{1}'), ('output_tokens', 'bigint[]', '{1}'), ('cached_tokens', 'bigint[]', '{0}'),
    ('input_tokens', 'bigint', '100'), ('output_tokens', 'bigint', '10'), ('cached_tokens', 'bigint', '0'),
    ('llm_cost', null, '0.5'), ('source', null, 'trace'), ('complete', null, true), ('model', null, 'a-model'),
    ('input_usd', null, 1), ('output_usd', null, 2), ('valid_from', null, '2026-01-01 00:00+00'), ('older_than', null, '30 days'),
    ('is_copy', null, true), ('by', null, '{agent,day,status}'), ('statuses', null, '{enqueued,processing}'), ('customers', null, '{acme,none}'),
    ('from_day', null, '2026-01-01'), ('to_day', null, '2026-01-31'), ('kinds', null, '{rate_limited,person_set}'), ('actors', null, '{ops}'),
    ('fetch_id', null, (select b.fetch_id from lakequeue.begin_compute_fetch('ops') b)), ('workspace', null, 'a workspace'),
    ('rows', null, '[{"kind": "endpoint", "name": "§", "sku": "§", "unit": "§", "day": "2026-01-01", "currency": "USD", "quantity": "1", "cost": "1"}]'),
    ('action', null, 'cancel'), ('with_attention', null, true), ('phase', null, 'running'), ('statement', null, 's'), ('problem', null, 'p');
end $$;

create function scenario.given(parameter text) returns text language sql as $$
  select g.value from scenario.given g where g.parameter = given.parameter and g.type is null $$;

-- Every public function that this login may execute.
create view scenario.public_function as
select p.oid, p.proname as name
from pg_proc p
where p.pronamespace = 'lakequeue'::regnamespace and not starts_with(p.proname, '_') and p.prorettype <> 'trigger'::regtype;

-- Its parameters, each with a value as a literal: `§` in JSON stands for a text, which is `text`.
create function scenario.parameters(function oid, text text default 'x')
returns table (name text, type text, value text, optional boolean)
language sql
as $$
  select a.name, a.type, format('%L::%s', replace(g.value, '§', trim('"' from to_json(parameters.text)::text)), a.type),
         a.has_default and g.value is null
  from (select p.proargnames[n] as name, format_type(p.proargtypes[n - 1], null) as type, p.pronargs - n < p.pronargdefaults as has_default
        from pg_proc p cross join generate_series(1, p.pronargs) n where p.oid = function) a
  left join scenario.given g on g.parameter = a.name and coalesce(g.type, a.type) = a.type
$$;

-- The call with these values; one parameter may have another one.
create function scenario.call(function oid, parameter text default null, value text default null, text text default 'x')
returns text
language sql
as $$
  select format('select * from lakequeue.%I(%s)', (select p.proname from pg_proc p where p.oid = function),
                string_agg(format('%I => %s', a.name, case when a.name = call.parameter then call.value else a.value end), ', ')
                  filter (where not a.optional or a.name = call.parameter))
  from scenario.parameters(function, call.text) a
$$;
grant select on all tables in schema scenario to public;

-- The rows that a statement gives, or `SQLSTATE message, detail, hint, context`; nothing of it stays. Values are written down as they
-- are, however the session writes dates and numbers.
create function scenario.plain(row_ record)
returns text
language plpgsql set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'postgres' set extra_float_digits = 1 set bytea_output = 'hex'
as $$ begin return to_jsonb(row_)::text; end $$;

create function scenario.attempt_call(statement text, read_only boolean default false)
returns text
language plpgsql
as $$
declare
  v_row record;
  v_said text;
  v_detail text; v_hint text; v_context text;
begin  -- without operators, which the caller's search path may replace
  if read_only then
    perform set_config('transaction_read_only', 'on', true);
  end if;
  if starts_with(statement, 'select') then
    for v_row in execute statement loop
      v_said := concat(v_said, scenario.plain(v_row));
    end loop;
  else
    execute statement;
  end if;
  raise exception using errcode = 'RB000';
exception
  when sqlstate 'RB000' then
    return concat('rows ', v_said);
  when others then
    get stacked diagnostics v_detail = pg_exception_detail, v_hint = pg_exception_hint, v_context = pg_exception_context;
    return concat(sqlstate, ' ', sqlerrm, ', ', v_detail, ', ', v_hint, ', ', v_context);
end $$;
