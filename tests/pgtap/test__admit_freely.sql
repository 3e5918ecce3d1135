-- What is claimed where no limit applies: whatever can be locked, under a shared lock, of agents without a limit only.
begin;
\ir scenarios.sql
select plan(15);

select set_clock('2026-03-01 09:00+00');
select configure_agent('_fr');
select enqueue_task('_fr', '/' || n) from generate_series(1, 3) n;
create temporary table fr as select id, model_endpoint_id as endpoint from agents where name = '_fr';
create function pg_temp.admitted(endpoints integer[], agents integer[] default array[(_agent('_fr')).id], wanted integer default 10)
returns text language sql as $$
  select string_agg(t.document_path, ' ' order by t.id)
  from lakequeue._admit_freely(endpoints, agents, wanted, false) a
  join lakequeue.tasks t on t.id = any(a.ids)
$$;
select is(pg_temp.admitted('{}'), null, 'without a lock nothing is admitted');
select is(pg_temp.admitted(array[endpoint]), '/1 /2 /3', 'a shared one is enough') from fr;
select is(pg_temp.admitted(array[endpoint], wanted => 2), '/1 /2', 'never more than wanted') from fr;
select is(pg_temp.admitted(array[endpoint], '{}'), null, 'only of the agents served') from fr;
select is((select count(*) from tasks t where t.xmax <> '0'::xid and t.status = 'enqueued' and t.agent_id = (select id from fr)), 3::bigint,
  'what was admitted is locked');
select configure_agent('_fr', max_concurrent_tasks => 2);
select is(pg_temp.admitted(array[endpoint]), null, 'nothing where a limit has appeared meanwhile') from fr;
select configure_agent('_fr', max_concurrent_tasks => 0), configure_endpoint('_fr', max_tpm => 1);
select is(pg_temp.admitted(array[endpoint]), null, 'a limit of the endpoint is one, too') from fr;
select configure_endpoint('_fr', max_tpm => 0);
select is(pg_temp.admitted(array[endpoint]), '/1 /2 /3', '(without it all again)') from fr;
update model_endpoints set cooldown_until = _now() + interval '1 second' where name = '_fr';
select is(pg_temp.admitted(array[endpoint]), null, 'nor where a 429 has come between peek and lock') from fr;
update model_endpoints set cooldown_until = _now() where name = '_fr';
select is(pg_temp.admitted(array[endpoint]), '/1 /2 /3', '(whose time is over)') from fr;
select pause_agent('_fr', 'x');
select is(pg_temp.admitted(array[endpoint]), null, 'nor where the agent was paused between') from fr;

-- It admits what an exclusive lock would, of however many agents.
select configure_agent('_n' || n) from generate_series(1, 3) n;
select set_clock(timestamptz '2026-03-02 09:00+00' - interval '1 second' * (hashint4(n) % 9)), enqueue_task('_n' || 1 + n % 11 % 3, '/n' || n, 4 + n % 3)
from generate_series(1, 40) n order by n;
create temporary table chosen as
select w.wanted, f.fair, c.exclusive, array(select i.id from unnest(c.ids) i(id) order by i.id) as ids, c.share_used_up,
       c.ids = array(select t.id from tasks t where t.id = any(c.ids) order by t.priority desc, t.created_at, t.id) as in_order
from (select array_agg(a.id) as agents, array_agg(a.model_endpoint_id) as endpoints from agents a where a.name in ('_n1', '_n2', '_n3')) s
cross join unnest(array[1, 2, 3, 5, 10, 39, 40, 41]) w(wanted)
cross join unnest(array[false, true]) f(fair)
cross join lateral (
  select false as exclusive, a.* from lakequeue._admit_freely(s.endpoints, s.agents, w.wanted, f.fair) a
  union all
  select true, a.* from lakequeue._admit(s.endpoints, '{}', s.agents, w.wanted, f.fair) a) c;
select results_eq($$select wanted, fair, ids, share_used_up from chosen where not exclusive order by wanted, fair$$,
  $$select wanted, fair, ids, share_used_up from chosen where exclusive order by wanted, fair$$, 'the same tasks, with or without a fair share');
select is((select array_agg(cardinality(ids) order by wanted) from chosen where not exclusive and not fair), '{1,2,3,5,10,39,40,40}', '(as many as wanted)');
select ok((select bool_and(in_order) from chosen where not exclusive), 'in rule 2''s order');

set session authorization test_worker;
select throws_ok($$select lakequeue._admit_freely('{}', '{}', 1, false)$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
