-- extend_leases: a heartbeat keeps a running attempt's lease, tells a lost one so, asks one to stop, and debits usage.
begin;
\ir scenarios.sql
select plan(63);

-- --- every situation -------------------------------------------------------------------------------------

create temporary table expected (situation text, answer text);
insert into expected values
  ('running', 'extended'), ('running, lease over', 'extended'), ('running, last try', 'extended'), ('running, asked to stop', 'cancel'),
  ('result stored', 'lost'), ('confirmed', 'lost'), ('reported failure', 'lost'), ('reported failure, another runs', 'lost'),
  ('reported rate limit', 'lost'), ('reported that it stopped', 'lost'), ('run died, waiting', 'lost'), ('run died, failed', 'lost'),
  ('expired, enqueued', 'lost'), ('expired, another runs', 'lost'), ('expired, another completed', 'lost'), ('expired, failed', 'lost'),
  ('expired after a request, cancelled', 'lost'), ('superseded', 'lost');

-- What a heartbeat a minute later is told; what else of task and attempts it changed.
create function pg_temp.try(situation text)
returns table (answer text, lease text, changed text)
language plpgsql
as $$
declare
  v_attempt bigint;
  v_before jsonb;
  v_lease timestamptz;
begin
  begin
    v_attempt := attempt_in(situation);
    perform advance('1 min');
    v_before := (select jsonb_agg(to_jsonb(t) - 'lease_expires_at' || to_jsonb(a) order by a.id) from tasks t join task_attempts a on a.task_id = t.id
                 where t.id = task_of(v_attempt));
    select e.answer, e.lease_expires_at into try.answer, v_lease from extend_leases(array[v_attempt], array[token(v_attempt)]) e;
    lease := (select case when v_lease is null then 'none' when v_lease is distinct from t.lease_expires_at then 'not the task''s'
                          when v_lease = _now() + interval '5 min' then 'new' else 'old' end
              from tasks t where t.id = task_of(v_attempt));
    if v_before is distinct from (
        select jsonb_agg(to_jsonb(t) - 'lease_expires_at' || to_jsonb(a) order by a.id) from tasks t join task_attempts a on a.task_id = t.id
        where t.id = task_of(v_attempt)) then
      changed := 'something else changed';
    end if;
    raise exception using errcode = 'ZZ999';
  exception when sqlstate 'ZZ999' then
    return next;
  end;
end $$;
select is(array[t.answer, t.lease, t.changed],
          array[e.answer, case e.answer when 'extended' then 'new' when 'cancel' then 'old' else 'none' end, null], e.situation)
from expected e cross join lateral pg_temp.try(e.situation) t;

-- --- many at once, in order, whatever they are ---------------------------------------------------------------

select attempt_in('expired, another runs') as lost \gset
select start() as a \gset
select start() as b \gset
select attempt_in('running, asked to stop') as stopping \gset
select advance('1 min') \gset
select results_eq(
  format('select attempt_id, answer from extend_leases(array[%1$s, 0, %2$s, null, %3$s, %4$s, %1$s], array[token(%1$s), ''x'', token(%2$s), ''y'', token(%3$s), token(%4$s), token(%1$s)])',
         :b, :lost, :stopping, :a),
  format($$ values (%s::bigint, 'extended'), (0, 'lost'), (%s, 'lost'), (null, 'lost'), (%s, 'cancel'), (%s, 'extended'), (%1$s, 'extended') $$,
         :b, :lost, :stopping, :a), 'a row per attempt, in order, repeats and unknown ones too');

-- --- tokens -----------------------------------------------------------------------------------------------------

select start() as c \gset
select advance('1 min') \gset
select digest() as untouched \gset
select is(e.answer, 'lost', v.description)
from (values ('', 'an empty token'), (token(:a), 'another attempt''s token'), (null, 'no token among tokens'), (upper(token(:c)), 'a token in capitals')) v(token, description)
cross join lateral extend_leases(array[:c], array[v.token], array[5], array[5], array[5]) e;
select is(digest(), :'untouched', 'to a stranger it is lost, and what he says he used is nobody''s');
select is(e.answer, 'extended', 'the right token') from extend_leases(array[:c], array[token(:c)]) e;

set session authorization test_worker;
select is(e.answer, 'extended', 'a worker needs none') from extend_leases(array[:c]) e;
select is(e.answer, 'lost', 'but one that it names must be right') from extend_leases(array[:c], array['x']) e;
set session authorization test_agent;
select is(e.answer, 'extended', 'an agent does') from extend_leases(array[:c], array[token(:c)]) e;
select refused(format('select extend_leases(array[%s])', :c), 'LQ403', 'an agent without tokens');
set session authorization test_owner;

-- --- the lease ---------------------------------------------------------------------------------------------------

select start() as long \gset
select configure_agent(agent_of(task_of(:long)), lease_duration => '1 min') \gset
select is(e.lease_expires_at, _now() + interval '5 min', 'a lease is never shortened') from extend_leases(array[:long], array[token(:long)]) e;
select advance('270 s') \gset
select is(e.lease_expires_at, _now() + interval '1 min', 'a new one has the agent''s duration of now')
from extend_leases(array[:long], array[token(:long)]) e;
select advance('59 min') \gset
select is(e.answer, 'extended', 'a lease that is over but not swept is extended') from extend_leases(array[:long], array[token(:long)]) e;
select sweep_leases(1000) \gset
select is(states(:long), 'processing running', 'so that no sweep takes it');

-- a request to stop ends it, at the latest by lease and grace (rule 3)
select start() as stop \gset
select cancel_task(task_of(:stop), actor => 'ops') \gset
select t.lease_expires_at as lease from tasks t where t.id = task_of(:stop) \gset
select advance('5 min') \gset
select is(e.answer || ' ' || (e.lease_expires_at = :'lease'), 'cancel true', 'a request to stop: the lease stays as it was')
from extend_leases(array[:stop], array[token(:stop)]) e;
select advance('5 min') \gset
select sweep_leases(1000) \gset
select is(states(:stop), 'cancelled expired', 'whatever the run says, it is over with lease and grace');

-- --- usage so far (rule 4a) ----------------------------------------------------------------------------------------

select start() as d \gset
select task_of(:d) as task \gset
select extend_leases(array[:d], array[token(:d)], array[100], array[20], array[7]) \gset
select attempt_is(:d, '{"input_tokens": 100, "output_tokens": 20, "cached_tokens": 7, "usage_complete": false, "usage_source": "callback"}', 'usage so far');
select extend_leases(array[:d], array[token(:d)], array[90], array[30]) \gset
select attempt_is(:d, '{"input_tokens": 100, "output_tokens": 30, "cached_tokens": 7}', 'is cumulative: the larger number stays');
select says_and_changes_nothing(format('select answer from extend_leases(array[%s], array[token(%1$s)], array[100], array[30])', :d), 'extended',
                                'a repeat changes nothing');
select count(*) from extend_leases(array[:d, :a], array[token(:d), token(:a)], array[null, 50]::bigint[], array[40, null]::bigint[]) \gset
select attempt_is(:d, '{"input_tokens": 100, "output_tokens": 40}', 'each in its own row, what is null is not known');
select attempt_is(:a, '{"input_tokens": 50, "output_tokens": null}', 'of each attempt');
select extend_leases(array[:lost], array[token(:lost)], array[70], array[7]) \gset
select attempt_is(:lost, '{"status": "expired", "input_tokens": 70, "output_tokens": 7}', 'what a lost run used is recorded too');

-- An overrun takes room from the limit at once: 1,000 are estimated, 9,500 of 10,000 used.
select configure_agent(agent_of(:task), max_tpm => 10000) \gset
select enqueue_task(agent_of(:task), '/next.pdf') as next \gset
savepoint overrun;
select is(claim(:next) > 0, true, 'there is room for another task of 1,000');
rollback to overrun;
select is(e.answer, 'extended', 'the run needs more than its estimate') from extend_leases(array[:d], array[token(:d)], array[9000], array[500]) e;
select is_empty(format('select * from dequeue_tasks(''w'', 10, array[%L])', agent_of(:task)), 'then there is none');
rollback to overrun;

select refused(format('select extend_leases(array[%s], array[token(%1$s)], %s)', :d, v.arguments), 'LQ400', v.arguments)
from (values ('array[-1]'), ('null, array[1000000000001]'), ('array[1], array[1], array[-1]'), ('array[9223372036854775807]')) v(arguments);

-- --- arrays of different lengths ---------------------------------------------------------------------------------

select refused('select extend_leases(' || arguments || ')', 'LQ400', arguments)
from (values ('array[1, 2], array[''x'']'), ('array[1], array[''x'', ''y'']'), ('array[1], ''{}'''), ('''{}'', array[''x'']'),
             ('array[1, 2], array[''x'', ''y''], array[1]'), ('array[1], array[''x''], null, array[1, 2]'), ('array[1], array[''x''], null, null, ''{}''')) v(arguments);
select is_empty('select * from extend_leases(''{}'', ''{}'')', 'no attempts, no answers');
set session authorization test_worker;
select is_empty('select * from extend_leases(null)', 'null neither');
set session authorization test_owner;

select not_for(login, 'select * from lakequeue.extend_leases(''{}'', ''{}'')')
from unnest(array['test_app', 'test_web', 'test_operator', 'test_reader', 'test_stranger']) login;

select ledger_is_exact();
select * from finish();
rollback;
