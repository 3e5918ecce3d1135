-- What an attempt that does not reserve its calls counts in a window (rule 4a): what it used where that is known
-- completely and its run has ended, else the larger of estimate and used, in each kind by itself; the same as _spending
-- counts.
begin;
select plan(15);
select set_clock('2026-03-01 09:00+00');
insert into model_endpoints (id, name) overriding system value values (900001, '_counted');
insert into agents (id, name, model_endpoint_id, output_share) overriding system value values (900010, '_counted', 900001, 0.3), (900011, '_counted all', 900001, 1);
create function pg_temp.attempt(used text, estimate bigint default 100, agent integer default 900010, run_ended boolean default true) returns lakequeue.task_attempts language sql as $$
  select jsonb_populate_record(null::lakequeue.task_attempts, jsonb_build_object(
    'agent_id', agent, 'estimated_tokens', estimate, 'usage_complete', used like '%!',
    'run_ended_at', case when run_ended then lakequeue._now() end,
    'input_tokens', nullif(split_part(trim('!' from used), '/', 1), ''), 'output_tokens', nullif(split_part(trim('!' from used), '/', 2), '')))
$$;
-- '70/20!': input and output, complete
create function pg_temp.counted(used text, estimate bigint default 100, agent integer default 900010, run_ended boolean default true) returns numeric[] language sql as
$$ select lakequeue._counted(pg_temp.attempt(used, estimate, agent, run_ended), g.output_share) from lakequeue.agents g where g.id = agent $$;

select is(pg_temp.counted('/'), '{1,100,70,30,1}', 'unknown use: the estimate, split by output_share; one task, one request');
select is(pg_temp.counted('70/20'), '{1,100,70,30,1}', 'less than the estimate: the estimate');
select is(pg_temp.counted('70/60'), '{1,130,70,60,1}', 'more in all');
select is(pg_temp.counted('95/'), '{1,100,95,30,1}', 'more of one kind counts of that, though not in all');
select is(pg_temp.counted('/31'), '{1,100,70,31,1}', '(output likewise)');
select is(pg_temp.counted('20/15!'), '{1,35,20,15,1}', 'complete use counts as it was');
select is(pg_temp.counted('500/1!'), '{1,501,500,1,1}', 'also if that is more');
select is(pg_temp.counted('0/0!'), '{1,0,0,0,1}', 'or nothing, but for the request');
select is(pg_temp.counted('20/15!', run_ended => false), '{1,100,70,30,1}', 'of a run that goes on the estimate, since it may spend on');
select is(pg_temp.counted('500/1!', run_ended => false), '{1,501,500,30,1}', 'or what it has used by now');
select is(pg_temp.counted('/', 1), '{1,1,0,1,1}', 'parts add up, output rounded up');
select is(pg_temp.counted('5/', 10, 900011), '{1,10,5,10,1}', 'all of it may be output');

-- the other place that says it
create temporary table grid as
select u.used, e.estimate, g.agent, r.run_ended
from (values ('/'), ('70/20'), ('70/60'), ('95/'), ('/31'), ('20/15!'), ('500/1!'), ('0/0!'), ('3/99')) u(used)
cross join (values (1), (7), (100), (333)) e(estimate) cross join (values (900010), (900011)) g(agent) cross join (values (true), (false)) r(run_ended);
create function pg_temp.by_spending(used text, estimate bigint, agent integer, run_ended boolean) returns numeric[] language plpgsql as $$
declare v_used numeric[]; v_booked numeric[]; a lakequeue.task_attempts := pg_temp.attempt(used, estimate, agent);
begin
  insert into lakequeue.task_attempts (task_id, number, agent_id, endpoint_id, estimated_tokens, worker, status, started_at, ended_at, run_ended_at,
                                       input_tokens, output_tokens, usage_complete, usage_source)
  values (-1, 1, agent, 900001, estimate, 'w', (case when run_ended then 'failed' else 'running' end)::lakequeue.attempt_status, lakequeue._now(),
          case when run_ended then lakequeue._now() end, case when run_ended then lakequeue._now() end, a.input_tokens, a.output_tokens, a.usage_complete, 'callback');
  select s.used, s.booked into v_used, v_booked from lakequeue._spending(array[900001], true) s;
  delete from lakequeue.task_attempts t where t.task_id = -1;
  return case when v_used = v_booked then v_used end;
end $$;
select is((select count(*) from grid), 144::bigint, '(144 attempts)');
select is_empty($$select used, estimate, agent, run_ended from grid
                  where (pg_temp.by_spending(used, estimate, agent, run_ended))[2:] is distinct from (pg_temp.counted(used, estimate, agent, run_ended))[2:]$$,
  '_spending says the same of each');
set session authorization test_worker;
select throws_ok('select lakequeue._counted(null, null)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
