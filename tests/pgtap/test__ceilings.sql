-- The limits as configured at an endpoint: its own and its agents'.
begin;
select plan(7);
select configure_endpoint('_ce', 5, 100, 80, 30, 9), configure_endpoint('_ce none');
select configure_agent('_ce a', model_endpoint => '_ce', max_concurrent_tasks => 2, max_tpm => 50, max_input_tpm => 40, max_output_tpm => 20, max_rpm => 3);
select configure_agent('_ce b', model_endpoint => '_ce', max_rpm => 4);
select configure_agent('_ce c', model_endpoint => '_ce none');
create function pg_temp.ceilings(endpoint text, agent text default null) returns setof text language sql as $$
  select concat_ws(' ', a.name, c.kind, c.ceiling)
  from lakequeue._ceilings((select e.id from lakequeue.model_endpoints e where e.name = endpoint),
                           (select a.id from lakequeue.agents a where a.name = agent)) c
  left join lakequeue.agents a on a.id = c.agent_id
$$;
select bag_eq($$select pg_temp.ceilings('_ce')$$, array[
  'tasks 5', 'tokens 100', 'input_tokens 80', 'output_tokens 30', 'requests 9',
  '_ce a tasks 2', '_ce a tokens 50', '_ce a input_tokens 40', '_ce a output_tokens 20', '_ce a requests 3', '_ce b requests 4'],
  'all of them, each once');
select bag_eq($$select pg_temp.ceilings('_ce', '_ce b')$$, array[
  'tasks 5', 'tokens 100', 'input_tokens 80', 'output_tokens 30', 'requests 9', '_ce b requests 4'],
  'the endpoint''s own and one agent''s');
select bag_eq($$select pg_temp.ceilings('_ce', '_ce c')$$, array[
  'tasks 5', 'tokens 100', 'input_tokens 80', 'output_tokens 30', 'requests 9'], 'none of an agent that is elsewhere');
select is_empty($$select pg_temp.ceilings('_ce none')$$, 'no limits, no rows');
select is_empty($$select * from _ceilings(-1, null)$$, 'no endpoint, no rows');
select configure_agent('_ce b', max_rpm => 0);
select is((select count(*) from pg_temp.ceilings('_ce', '_ce b')), 5::bigint, 'a limit that was taken away is gone');
set session authorization test_worker;
select throws_ok('select * from lakequeue._ceilings(1, null)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
