-- SQL in every text that a public function takes, forged and foreign tokens, replayed reports: nothing of it is executed, believed
-- or told. (Shadowed names and hostile settings need sessions of their own: tests/race/test_attacks.py.)
begin;
\ir scenarios.sql
\ir calls.sql
select no_plan();

-- --- no dynamic SQL ---------------------------------------------------------------------------------------------------

-- Bodies without comments and string constants.
create view scenario.code as
select p.proname as name, p.prosecdef as definer, p.proconfig as settings, p.prosrc as body,
       regexp_replace(regexp_replace(p.prosrc, '--[^\n]*', '', 'g'), '''[^'']*''', '''''', 'g') as code
from pg_proc p where p.pronamespace = 'lakequeue'::regnamespace;
-- Whoever needs `execute` in a function says here which, and quotes with format's %I and %L.
select results_eq($$select c.name::text from code c where c.code ~* '\m(execute|dblink|copy|query_to_xml|cursor_to_xml)\M'$$, array[]::text[],
                  'no function makes SQL out of text');
select is_empty($$select c.name from code c where c.definer and not 'search_path=pg_catalog, lakequeue, pg_temp' = any(c.settings)$$,
                'whatever runs as the owner has its search path pinned, temporary objects last');
select is_empty($$
  select c.name from code c
  where regexp_replace(c.body, 'E''[^'']*''', '', 'g') ~ '''[^'']*\\[^'']*''' and not coalesce('standard_conforming_strings=on' = any(c.settings), false)
$$, 'a caller cannot change what a backslash in a function means');

-- --- SQL in every text ------------------------------------------------------------------------------------------------

create sequence scenario.tripped;
grant usage on sequence scenario.tripped to public;
create table scenario.hostile as
select h.text, row_number() over () as n
from unnest(array[
  '''||nextval(''scenario.tripped'')||''',
  '''); select nextval(''scenario.tripped''); -- "; select nextval(''scenario.tripped''); -- $$; select nextval(''scenario.tripped''); $$ or $1',
  '\''; select nextval(''scenario.tripped''); -- %s %I %L %1$s %% {} ${a} \1 \\',
  '{"a", nextval(''scenario.tripped'')} .*(%_[\']) h(text);
create table scenario.tries as
select f.name as function, p.name as parameter, h.n,
       scenario.call(f.oid, p.name, format('%L::%s', case when p.type like 'json%' then to_json(h.text)::text
                                                         when p.type = 'text[]' then array[h.text]::text else h.text end, p.type)) as statement
from public_function f cross join lateral scenario.parameters(f.oid) p cross join hostile h
where p.type in ('text', 'text[]', 'json', 'jsonb')
union all  -- and inside of JSON that has the right shape
select f.name, 'in JSON', h.n, scenario.call(f.oid, text => h.text)
from public_function f cross join hostile h where exists (select from scenario.parameters(f.oid) p where p.type like 'json%');
create table scenario.said as select t.*, attempt_call(t.statement) as said from tries t;

select is_empty($$select s.function, s.parameter, s.n, left(s.said, 200) from said s where s.said !~ '^(rows|LQ|22)'$$,
                'a text that is no good is refused in our words, or as data');
select is(s.is_called, false, 'and none is executed') from scenario.tripped s;
select cmp_ok(count(*) filter (where s.said ~ '^rows'), '>', count(*) / 3, 'though they come far: a third and more are taken as what they are') from said s;
select is_empty($$select f.name, left(a.said, 200) from public_function f cross join lateral attempt_call(call(f.oid)) a(said) where a.said !~ '^rows'$$,
                'as is what means something');
select is_empty($$
  select s.function, s.parameter from said s join given g on g.parameter = 'token' and s.function <> 'dequeue_tasks' and position(g.value in s.said) > 0
$$, 'nothing that is said, and no error, has a token in it');

-- --- forged tokens ----------------------------------------------------------------------------------------------------

create table scenario.forged as
select format('%L', t.token) as token
from given g, unnest(array['', 'x', upper(g.value), left(g.value, 63), g.value || ' ', ' ' || g.value, repeat('0', 64), '%', 'null',
                           token(start()), (select a.run_key::text from task_attempts a where scenario.token(a.id) = g.value)]) t(token)
where g.parameter = 'token'
union all select 'null';
select set_eq($$
  select f.name::text from public_function f where exists (select from parameters(f.oid) p where p.name in ('token', 'tokens'))
$$, array['extend_leases', 'record_callback', 'report_rate_limit', 'reserve_tokens', 'settle_tokens', 'store_result'], 'these ask for a token');
create temporary table before as select scenario.digest() as digest;
grant select on forged to public;
create function scenario.forge(token text) returns setof text language plpgsql as $$
begin
  set local session authorization test_agent;
  return query
    select f.name || ': ' || left(scenario.attempt_call(scenario.call(f.oid, p.name, case when p.type = 'text[]' then format('array[%s]::text[]', token) else token end)), 70)
    from scenario.public_function f cross join lateral scenario.parameters(f.oid) p where p.name in ('token', 'tokens');
  set local session authorization test_owner;
end $$;
select is_empty($$
  select f.token, said from forged f cross join lateral forge(f.token) said
  where said !~ '^\w+: LQ401 wrong callback token for attempt \d+' and said !~ '^extend_leases: rows \{"answer": "lost"'
$$, 'whoever has no token, another''s or one like it is refused');
set session authorization test_web;
select is_empty(format($$
  select r.* from lakequeue.record_callbacks((
    select json_agg(json_build_object('attempt', %s, 'token', trim('''' from f.token), 'outcome', 'success', 'result', 1)) from scenario.forged f)) r
  where r.answer <> 'refused' or r.message !~ '^wrong callback token'
$$, g.value), 'also among many') from scenario.given g where g.parameter = 'attempt';
set session authorization test_agent;
select throws_ok('select lakequeue.extend_leases(array[1::bigint])', 'LQ403', null, 'an agent cannot leave its token out');
set session authorization test_owner;
select is(scenario.digest(), b.digest, 'and nothing has changed') from before b;

-- --- replays ----------------------------------------------------------------------------------------------------------

-- An attempt that is over says everything again, with its own token: to a task that waits, that another attempt runs, that is done.
create function scenario.replay(attempt bigint) returns setof text language plpgsql as $$
declare
  v_before text := scenario.digest();
  v_token text := scenario.token(attempt);
  v_said text;
begin
  foreach v_said in array array[
    scenario.report(attempt, 'failure', error => '"again"'), scenario.report(attempt, 'cancelled'), scenario.report(attempt, 'rate_limited', retry_after => '1 h'),
    (select e.answer from lakequeue.extend_leases(array[attempt], array[v_token]) e),
    (select r.answer from lakequeue.reserve_tokens(attempt, v_token, 1, 1) r),
    coalesce(lakequeue.report_rate_limit(attempt, v_token, '1 h')::text, 'null')] loop
    return next v_said;
  end loop;
  return next case when scenario.digest() = v_before then 'nothing changed' else 'something changed' end;
end $$;
select results_eq(format('select scenario.replay(scenario.attempt_in(%L))', situation),
                  array['duplicate', 'duplicate', 'duplicate', 'lost', 'lost', 'null', 'nothing changed'], 'replayed: ' || situation)
from unnest(array['confirmed', 'reported failure', 'reported failure, another runs', 'reported failure, another completed',
                  'reported permanent failure', 'superseded, reported']) situation;
select is(report(a, 'success', '{"total": 8}') || ' ' || store(a), 'duplicate duplicate', 'nor does a success that is said again, with another result')
from attempt_in('confirmed') a;

-- --- tokens are kept nowhere ------------------------------------------------------------------------------------------

create function scenario.holds(text text) returns setof text language plpgsql security definer set search_path = lakequeue, pg_temp as $$
declare
  v_table regclass;
  v_found boolean;
begin
  for v_table in select c.oid from pg_class c where c.relnamespace = 'lakequeue'::regnamespace and c.relkind in ('r', 'v') loop
    execute format('select exists (select from %s r where position($1 in r::text) > 0)', v_table) into v_found using text;
    if v_found then
      return next v_table::text;
    end if;
  end loop;
end $$;
select is_empty(format('select holds(%L)', g.value), 'no table and no view has a token in it') from given g where g.parameter = 'token';
select isnt_empty(format('select holds(%L)', a.run_key), 'where a run key is found') from given g join task_attempts a on a.id = g.value::bigint where g.parameter = 'attempt';

select * from finish();
rollback;
