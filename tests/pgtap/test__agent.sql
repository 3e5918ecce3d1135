-- Looking up an agent by its name, exactly, or saying that there is none.
begin;
select plan(8);

create temporary table made as select configure_agent('_agent parser', job_id => 77) as id;
select is((_agent('_agent parser')).id, (select id from made), 'it is found by its name');
select is((_agent('_agent parser')).job_id, 77::bigint, 'with its whole row');
select throws_ok($$select _agent('_agent nobody')$$, 'LQ404', 'there is no agent "_agent nobody"', 'an unknown one is LQ404');
select throws_ok($$select _agent('_AGENT PARSER')$$, 'LQ404', null, 'names differ in case');
select throws_ok($$select _agent('_agent%')$$, 'LQ404', null, 'a name is no pattern');
select throws_ok($$select _agent('')$$, 'LQ404', null, 'an empty name is unknown');
select throws_ok($$select _agent(null)$$, 'LQ404', null, 'null is unknown');

set session authorization test_worker;
select throws_ok($$select _agent('_agent parser')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
