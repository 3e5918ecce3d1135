-- The agents of a filter: all for null, each once, and nothing that is no agent.
begin;
select plan(8);

create temporary table made as select configure_agent('_ids a') as a, configure_agent('_ids b') as b;
select is(_agent_ids(null), array(select id from agents order by id), 'null means all of them');
select is(_agent_ids('{}'), '{}'::integer[], 'none means none');
select is(_agent_ids(array['_ids b']), array[(select b from made)], 'those asked for and no others');
select is((select array_agg(i order by i) from unnest(_agent_ids(array['_ids b', '_ids a'])) i),
  (select array[least(a, b), greatest(a, b)] from made), 'all of those');
select is(_agent_ids(array['_ids a', '_ids a']), array[(select a from made)], 'one named twice counts once');
select throws_ok($$select _agent_ids(array['_ids a', '_ids c'])$$, 'LQ404', null, 'an unknown one is refused');
select throws_ok($$select _agent_ids(array['_ids a', null])$$, 'LQ404', null, 'null is no agent');

set session authorization test_reader;
select throws_ok('select lakequeue._agent_ids(null)', '42501', null, 'it is internal: a reader may not call it');
set session authorization test_owner;

select * from finish();
rollback;
