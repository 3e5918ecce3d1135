-- Who may do what: the intended truth in one table, compared with the catalog and with what happens when each login tries.
-- A new function must be put into a row here (and into db/grants.sql and db/README.md); internal ones (_name) are nobody's.
begin;
\ir scenarios.sql
\ir calls.sql
select no_plan();

create table scenario.may_execute (roles text, functions text);
insert into scenario.may_execute values
  ('app web worker agent operator reader', 'schema_version'),
  -- requests
  ('app web',                 'create_extraction enqueue_task enqueue_tasks estimate_tokens'),
  ('app web operator reader', 'extraction_progress extraction_results'),
  -- reads
  ('web operator reader',
    'queue_metrics queue_history response_history response_summary list_tasks task_detail list_events list_workers agent_status
     agent_pace agent_totals needs_attention may_operate action_scope explain_throttle explain_throttles extraction_detail list_extractions
     list_extraction_documents confidence_summary latest_change reporting_time cost_report endpoint_cost_report runs_to_price
     compute_fetch_status'),
  ('operator reader',         'configuration'),
  ('web operator reader worker', 'health'),
  -- people
  ('web operator',
    'pause_agent resume_agent cancel_task cancel_tasks retry_task retry_tasks reprocess_task reprocess_tasks set_priority
     set_priorities begin_compute_fetch update_compute_fetch record_compute_cost cancel_compute_fetch'),
  ('operator',                'configure_agent configure_endpoint set_model_price set_person set_time_zone quiesce move_here purge_tasks'),
  -- work
  ('worker',
    'worker_heartbeat dequeue_tasks confirm_claims adopt_attempts record_runs runs_to_check fail_attempt sweep_leases fold_rollups record_usage
     attempts_to_settle'),
  ('web worker',              'check_home'),
  -- reports of agents, each with the token of its attempt
  ('worker agent',            'extend_leases'),
  ('web agent',               'record_callback'),
  ('web',                     'record_callbacks'),
  ('agent',                   'reserve_tokens settle_tokens store_result report_rate_limit');
create table scenario.may_select (roles text, views text);
insert into scenario.may_select values ('web operator reader', 'task_costs task_timeline');

create view scenario.role_ as
select r.name, 'lakequeue_' || r.name as group_role, 'test_' || r.name as login
from unnest(array['app', 'web', 'worker', 'agent', 'operator', 'reader']) r(name)
union all select 'stranger', 'test_stranger', 'test_stranger';
create view scenario.intended as
select f.function, m.roles
from may_execute m cross join lateral regexp_split_to_table(m.functions, '\s+') f(function)
union all
select p.proname, '' from pg_proc p
where p.pronamespace = 'lakequeue'::regnamespace and (starts_with(p.proname, '_') or p.prorettype = 'trigger'::regtype);
grant select on all tables in schema scenario to public;

-- --- the catalog ------------------------------------------------------------------------------------------------------

select is_empty($$
  select format('%s is in no row of tests/pgtap/test_roles.sql: say there who may call it, in db/grants.sql and in db/README.md', p.proname)
  from pg_proc p where p.pronamespace = 'lakequeue'::regnamespace and p.proname not in (select i.function from intended i)
$$, 'every function is in the table');
select is_empty($$
  select i.function, count(*) from intended i
  left join pg_proc p on p.proname = i.function and p.pronamespace = 'lakequeue'::regnamespace
  group by i.function having count(*) > 1 or count(p.oid) = 0
$$, 'each once, and no name without a function');
select results_eq($$
  select p.proname::text, coalesce(string_agg(r.name, ' ' order by r.name), '')
  from pg_proc p left join role_ r on has_function_privilege(r.group_role, p.oid, 'execute')
  where p.pronamespace = 'lakequeue'::regnamespace group by p.proname order by p.proname collate "C"
$$, $$
  select i.function, (select coalesce(string_agg(w.name, ' ' order by w.name), '') from regexp_split_to_table(i.roles, ' ') w(name))
  from intended i order by i.function collate "C"
$$, 'each function is executable by these roles and by nobody else');
select is_empty($$
  select p.oid::regprocedure, a.grantee, a.privilege_type from pg_proc p cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
  where p.pronamespace = 'lakequeue'::regnamespace
    and (a.grantee = 0 or a.is_grantable and a.grantee <> p.proowner or not has_function_privilege('lakequeue_owner', p.oid, 'execute'))
$$, 'nothing is PUBLIC''s, nobody hands on what he was given, and the owner may call all of it');

select is_empty($$
  select r.name, c.relname, p.privilege
  from role_ r
  cross join pg_class c
  cross join unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) p(privilege)
  where c.relnamespace = 'lakequeue'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and (has_table_privilege(r.group_role, c.oid, p.privilege)
         or (p.privilege in ('select', 'insert', 'update', 'references') and has_any_column_privilege(r.group_role, c.oid, p.privilege)))
    is distinct from (c.relkind = 'v' and p.privilege = 'select'
                      and exists (select from may_select m
                                  where c.relname = any(string_to_array(m.views, ' ')) and r.name = any(string_to_array(m.roles, ' '))))
$$, 'no role has any privilege on a table or a column of one, and SELECT on these views only');
select is_empty($$
  select r.name, c.relname from role_ r cross join pg_class c cross join unnest(array['usage', 'select', 'update']) p(privilege)
  where c.relnamespace = 'lakequeue'::regnamespace and c.relkind = 'S' and has_sequence_privilege(r.group_role, c.oid, p.privilege)
$$, 'nor on a sequence');
select is_empty($$
  select t.typname, t.typacl from pg_type t where t.typnamespace = 'lakequeue'::regnamespace and t.typacl is not null
$$, 'types have PostgreSQL''s own privileges: who may use the schema may name them');
select is_empty($$
  select r.name, n.nspname from role_ r cross join pg_namespace n
  where n.nspname in ('lakequeue', 'lakequeue_migrations')
    and (has_schema_privilege(r.group_role, n.oid, 'create')
         or has_schema_privilege(r.group_role, n.oid, 'usage') <> (n.nspname = 'lakequeue' and r.name <> 'stranger'))
$$, 'the schema may be used by the roles and by no stranger, the books of `migrate` by none; nobody makes anything in either');
select is_empty($$
  select r.rolname from pg_roles r
  where starts_with(r.rolname, 'lakequeue_')
    and (r.rolcanlogin or r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolbypassrls or r.rolreplication
         or exists (select from pg_auth_members m where m.member = r.oid))
$$, 'the roles can do nothing else: no login, no attribute, member of no other role');
set role lakequeue_owner;
create function lakequeue.just_made() returns integer language sql return 1;
reset role;
select ok(not has_function_privilege('test_stranger', 'lakequeue.just_made()', 'execute'), 'what the owner makes is nobody''s until it is granted');
drop function lakequeue.just_made();

-- --- each login tries -------------------------------------------------------------------------------------------------

-- What a login is told when it runs these statements: the ones that it may not, 42501; the others, anything else.
create function scenario.tried(login text, statements text[], read_only boolean default false)
returns setof text
language plpgsql
as $$
declare
  v_statement text;
begin
  execute format('set local session authorization %I', login);
  foreach v_statement in array statements loop
    return next left(attempt_call(v_statement, read_only), 5);
  end loop;
  set local session authorization test_owner;
end $$;

create table scenario.calls as
select f.name, scenario.call(f.oid) as statement, row_number() over (order by f.name) as n from public_function f;
select is_empty(format($$
  select c.name, t.said
  from tried(%L, array(select c.statement from calls c order by c.n)) with ordinality t(said, n)
  join calls c using (n) join intended i on i.function = c.name
  where (t.said = '42501') = (%L = any(string_to_array(i.roles, ' ')))
$$, r.login, r.name), r.login || ' can call what it may, and nothing else') from role_ r;

create table scenario.raw as
select c.relname as name, s.statement, row_number() over () as n
from pg_class c
cross join unnest(case c.relkind
  when 'S' then array['select nextval(''lakequeue.%1$I'')', 'select setval(''lakequeue.%1$I'', 1)']
  when 'v' then array['select * from lakequeue.%1$I limit 1']
  when 'r' then array['select * from lakequeue.%1$I limit 1', 'insert into lakequeue.%1$I default values',
                      'update lakequeue.%1$I set %2$I = %2$I', 'delete from lakequeue.%1$I', 'truncate lakequeue.%1$I',
                      'lock table lakequeue.%1$I in access share mode'] end) f(form)
cross join lateral format(f.form, c.relname, (
  select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and a.attidentity = '' order by a.attnum limit 1)) s(statement)
where c.relnamespace = 'lakequeue'::regnamespace;
select is_empty(format($$
  select w.statement, t.said
  from tried(%L, array(select w.statement from raw w order by w.n)) with ordinality t(said, n) join raw w using (n)
  where t.said <> '42501' and not (w.statement like 'select * %%' and exists (
    select from may_select m where w.name = any(string_to_array(m.views, ' ')) and %L = any(string_to_array(m.roles, ' '))))
$$, r.login, r.name), r.login || ' reaches no table, sequence or view by itself, but the views that it may read') from role_ r;
select ok(bool_and(t.said <> '42501') and count(*) > 100, 'these statements are right: the owner may run them')
from tried('test_owner', array(select w.statement from raw w order by w.n)) t(said);

-- --- what the roles promise -------------------------------------------------------------------------------------------

select is_empty($$
  select c.name, t.said
  from tried('test_reader', array(select c.statement from calls c order by c.n), read_only => true) with ordinality t(said, n)
  join calls c using (n)
  where t.said not in ('rows ', '42501')
$$, 'a reader writes by no function: each that it may call does what it does in a read-only transaction, too');
select ok(count(*) > 10, 'which the functions that write do not: ' || count(*)) 
from tried('test_operator', array(select c.statement from calls c order by c.n), read_only => true) t(said) where t.said = '25006';

select is_empty($$
  select i.function from intended i join public_function f on f.name = i.function
  where 'agent' = any(string_to_array(i.roles, ' ')) and i.function <> 'schema_version'
    and not exists (select from parameters(f.oid) p where p.name in ('token', 'tokens'))
$$, 'whatever an agent may call asks for the token of its attempt');
select is_empty($$
  select i.function from intended i
  where i.roles ~ '\mweb\M' and i.roles !~ '\m(app|operator|reader|agent)\M' and i.function not in ('check_home', 'record_callbacks')
     or i.roles ~ '\mweb\M' and i.roles ~ '\mworker\M' and i.function not in ('schema_version', 'check_home', 'health')
$$, 'the web process has nothing of a worker''s but the looks where it is and how it is');

select * from finish();
rollback;
