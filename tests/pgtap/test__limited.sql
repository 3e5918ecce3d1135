-- Any limit of the agent or of its endpoint applies; without one none does.
begin;
select plan(12);
select configure_agent('_limited');
create function pg_temp.limited() returns boolean language sql as $$
  select lakequeue._limited(a, e) from lakequeue.agents a join lakequeue.model_endpoints e on e.id = a.model_endpoint_id
  where a.name = '_limited'
$$;
select is(pg_temp.limited(), false, 'no limit');
create function pg_temp.with_one(relation text, kind text) returns boolean language plpgsql as $$
declare
  v_answer boolean;
begin
  execute format('update lakequeue.%I set %I = 7 where name = ''_limited''', relation, kind);
  v_answer := pg_temp.limited();
  execute format('update lakequeue.%I set %I = null where name = ''_limited''', relation, kind);
  return v_answer;
end $$;
select is(pg_temp.with_one(relation, kind), true, format('%s of %s', kind, relation))
from unnest(array['agents', 'model_endpoints']) relation
cross join unnest(array['max_concurrent_tasks', 'max_tpm', 'max_input_tpm', 'max_output_tpm', 'max_rpm']) kind;
set session authorization test_worker;
select throws_ok($$select lakequeue._limited(null, null)$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
