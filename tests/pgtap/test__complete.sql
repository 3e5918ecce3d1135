-- _complete does what _apply_callback does, report by report: the same random batches go through record_callbacks, which hands it
-- the plain ones, and one by one through record_callback, in the order of the tasks; answers, messages and every table are compared.
begin;
\ir scenarios.sql
select plan(15);

-- --- what is reported on: every situation, and tasks that share agents ----------------------------------

create temporary table pool (attempt bigint, token text);
insert into pool
select a.attempt, token(a.attempt)
from unnest(array[
  'running', 'running, lease over', 'running, asked to stop', 'running, last try', 'result stored', 'confirmed',
  'reported failure', 'reported failure, another runs', 'run died, waiting', 'run died, failed', 'expired, another runs',
  'expired, failed, result kept', 'expired, failed, retried', 'superseded']) s(situation)
cross join lateral (select attempt_in(s.situation) as attempt offset 0) a;

-- One agent as it comes, one whose breaker is near, one with limits whose runs have reserved calls.
select configure_agent('plain'), configure_agent('breaking', breaker_failures => 3, max_attempts => 1),
       configure_agent('reserving', reserves_calls => true, max_tpm => 1000000);
select set_clock('2026-01-01 12:00+00');
select enqueue_task(g.name, '/x.pdf', customer => c.customer)
from unnest(array['plain', 'breaking', 'reserving']) g(name), unnest(array['', 'acme']) c(customer), generate_series(1, 5);
create temporary table claimed as
select d.* from dequeue_tasks('w', 100, array['plain', 'breaking', 'reserving']) d;
insert into pool select c.attempt_id, c.callback_token from claimed c;
select advance('1 min');
-- Some have told usage in a heartbeat, some have a run, some have calls under way, one is to be cancelled.
select count(*) from extend_leases(
  (select array_agg(c.attempt_id) from claimed c where c.attempt_id % 4 = 0),
  (select array_agg(c.callback_token) from claimed c where c.attempt_id % 4 = 0),
  (select array_agg(500) from claimed c where c.attempt_id % 4 = 0),
  (select array_agg(9000) from claimed c where c.attempt_id % 4 = 0));
select count(*) from record_runs((select array_agg(c.attempt_id) from claimed c where c.attempt_id % 3 = 0),
                                 (select array_agg(c.attempt_id + 1000) from claimed c where c.attempt_id % 3 = 0));
select count(*)
from claimed c
cross join lateral reserve_tokens(c.attempt_id, c.callback_token, 10, 10) where c.agent = 'reserving';
select count(*) from claimed c cross join lateral cancel_task(c.task_id, actor => 'ops') where c.attempt_number = 1 and c.attempt_id % 7 = 0;
insert into breaker_books (agent_id, failures) select a.id, 2 from agents a where a.name in ('plain', 'breaking');

-- --- random batches -----------------------------------------------------------------------------------

select setseed(0.8);
create temporary table batches as
select b.number, jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
         'attempt', case when r.odd < 0.01 then to_jsonb(' ' || p.attempt) when r.odd < 0.02 then to_jsonb(0) else to_jsonb(p.attempt) end,
         'token', case when r.odd between 0.02 and 0.04 then 'wrong' else p.token end,
         'outcome', case when r.outcome < 0.75 then 'success'
                         else (array['failure', 'failure', 'permanent_failure', 'rate_limited', 'cancelled', 'done'])[ceil((r.outcome - 0.75) * 24)] end,
         'result', case when r.result < 0.9 then jsonb_build_object('found', r.result) when r.result < 0.92 then '[1e999]' end,
         'confidence', case when r.confidence < 0.5 then r.confidence when r.confidence > 0.99 then 7 end,
         'input_tokens', case when r.input < 0.7 then floor(r.input * 3000) when r.input > 0.99 then -1 end,
         'output_tokens', case when r.input < 0.6 then floor(r.input * 800) end,
         'cached_tokens', case when r.input < 0.2 then floor(r.input * 500) end,
         'llm_cost', case when r.input between 0.1 and 0.65 then round(r.input::numeric, 6) end,
         'usage_complete', case when r.input < 0.4 then true when r.input > 0.98 then true end,
         'run_id', case when r.confidence < 0.3 then floor(r.confidence * 1000) end,
         'trace_id', case when r.confidence between 0.2 and 0.8 then repeat('tr ', (r.confidence * 300)::integer) end,
         'error_class', case when r.result > 0.5 then 'odd' end,
         'retry_after', case when r.confidence between 0.4 and 0.43 then '1 min' when r.confidence between 0.43 and 0.47 then 'soon' end))
       order by r.place) as reports
from (select n as number, 1 + floor(random() * 12)::integer as length, random() < 0.3 as careless from generate_series(1, 30) n) b
cross join lateral generate_series(1, b.length) l
cross join lateral (
  select random() as place, 1 + floor(random() * (select count(*) from pool))::integer as which, random() as outcome, random() as result,
         random() as confidence, random() as input, random() as odd, b.number + l
  offset 0) d
cross join lateral (
  -- One bad report sends a whole batch through _apply_callback, so most have none.
  select d.place, d.which, case when b.careless then d.outcome else d.outcome * 0.95 end as outcome,
         case when b.careless then d.result else d.result * 0.9 end as result,
         case when b.careless then d.confidence else d.confidence * 0.9 end as confidence,
         case when b.careless then d.input else d.input * 0.95 end as input, case when b.careless then d.odd else 1 end as odd) r
join (select p.*, row_number() over (order by p.attempt) as which from pool p) p on p.which = r.which
group by b.number;

-- Every table, row for row; events without their ids, and deltas by what they add up to (a pass writes one a group).
create function pg_temp.everything()
returns jsonb
language plpgsql
as $$
declare
  v_table regclass;
  v_rows text;
  v_all jsonb := '{}';
begin
  for v_table in
    select c.oid from pg_class c
    where c.relnamespace = 'lakequeue'::regnamespace and c.relkind = 'r' and c.relname <> 'task_deltas'
  loop
    execute format('select string_agg(%s, E''\n'' order by %1$s) from %s r',
                   case when v_table = 'lakequeue.task_events'::regclass then '(to_jsonb(r) - ''id'')::text' else 'r::text' end, v_table)
    into v_rows;
    v_all := v_all || jsonb_build_object(v_table, v_rows);
  end loop;
  return v_all || jsonb_build_object('deltas', (
    select jsonb_agg(to_jsonb(s) order by to_jsonb(s)::text)
    from (
      select s.agent_id, s.customer, s.status, s.day, s.bucket, s.hour, sum(s.tasks) as tasks, sum(s.input_tokens) as input,
             sum(s.output_tokens) as output, sum(s.cached_tokens) as cached, trim_scale(sum(s.llm_cost)) as cost, sum(s.ran) as ran,
             sum(s.priced) as priced, sum(s.input_told) as input_told, sum(s.output_told) as output_told,
             sum(s.cached_told) as cached_told, sum(s.cost_told) as cost_told
      from task_deltas d cross join lateral _delta_sides(d) s
      group by s.agent_id, s.customer, s.status, s.day, s.bucket, s.hour) s
    where (s.tasks, s.input, s.output, s.cached, s.cost) <> (0, 0, 0, 0, 0)));
end $$;

-- Sends a batch in one of both ways and undoes it; what was answered, and all tables then.
create function pg_temp.sent(reports jsonb, one_by_one boolean, out answers jsonb, out tables jsonb)
language plpgsql
as $$
declare
  v_report record;
  v_answer text;
  v_message text;
begin
  perform setseed(0.5);  -- waits before a retry have jitter
  begin
    if one_by_one then
      answers := '{}';
      for v_report in
        select r.value, r.number, i.attempt
        from jsonb_array_elements(reports) with ordinality r(value, number)
        cross join lateral (  -- digits and nothing else
          select case when r.value ->> 'attempt' ~ '^[0-9]{1,18}$' then (r.value ->> 'attempt')::bigint end as attempt) i
        left join task_attempts a on a.id = i.attempt
        order by a.task_id nulls last, r.number
      loop
        v_message := null;
        begin
          select record_callback(
                   v_report.attempt, c.token, c.outcome, c.result, c.confidence, c.input_tokens, c.output_tokens, c.cached_tokens,
                   c.llm_cost, c.usage_complete, c.error_class, c.error, c.run_id, c.trace_id, c.retry_after)
          into v_answer
          from jsonb_to_record(v_report.value) as c(
            token text, outcome text, result json, confidence real, input_tokens bigint, output_tokens bigint, cached_tokens bigint, llm_cost numeric, usage_complete boolean, error_class text,
            error json, run_id bigint, trace_id text, retry_after interval);
        exception when others then
          v_answer := 'refused';
          v_message := left(sqlerrm, 500);
        end;
        answers := answers || jsonb_build_object(v_report.number, jsonb_build_array(v_answer, v_message));
      end loop;
    else
      select jsonb_object_agg(a."position", jsonb_build_array(a.answer, a.message)) into answers
      from record_callbacks(reports::json) a;
    end if;
    tables := pg_temp.everything();
    raise exception using errcode = 'ZZ999';
  exception when sqlstate 'ZZ999' then
    return;
  end;
end $$;

create temporary table compared as
select b.number, b.reports, t.answers as together, o.answers as alone,
       (select jsonb_object_agg(x.key, jsonb_build_array(x.value, y.value))
        from jsonb_each(t.tables) x join jsonb_each(o.tables) y using (key) where x.value is distinct from y.value) as differences
from batches b
cross join lateral pg_temp.sent(b.reports, false) t
cross join lateral pg_temp.sent(b.reports, true) o;

select is(count(*), 30::bigint, '30 batches were sent') from compared;
select is(coalesce(jsonb_agg(jsonb_build_array(c.number, c.together, c.alone)), '[]'), '[]', 'both answer the same')
from compared c where c.together is distinct from c.alone;
select is(coalesce(left(jsonb_agg(jsonb_build_array(c.number, c.reports, c.differences))::text, 4000), ''), '', 'and leave the same behind')
from compared c where c.differences is not null;
select ok(count(*) filter (where a.value ->> 0 = w.answer) > 0, format('%s is among the answers', w.answer))
from unnest(array['accepted', 'duplicate', 'superseded', 'result_missing', 'refused']) w(answer)
cross join compared c cross join lateral jsonb_each(c.together) a
group by w.answer;

-- --- the pass itself ----------------------------------------------------------------------------------------

create temporary table plain as
select array_agg(c.attempt_id order by c.attempt_id) as attempts, array_agg('{"found": 1}'::jsonb) as results, count(*)::integer as n
from claimed c where c.agent = 'plain';
select count(*) as deltas from task_deltas \gset
select is(
  (select array_agg(a order by a) from unnest(_complete(
     p.attempts[1:p.n - 1] || array[0, null]::bigint[], p.results || '1'::jsonb, array_fill(0.5::real, array[p.n + 1]),
     array_fill(900::bigint, array[p.n + 1]), array_fill(100::bigint, array[p.n + 1]), array_fill(null::bigint, array[p.n + 1]),
     array_fill(null::numeric, array[p.n + 1]), array_fill(true, array[p.n + 1]), array_fill(null::bigint, array[p.n + 1]),
     array_fill(null::text, array[p.n + 1]))) a),
  p.attempts[1:p.n - 1], 'it says which it has accepted; an unknown attempt is left, and none')
from plain p;
select is((select count(*) from task_deltas) - :deltas, 2::bigint, 'a delta for each group: two customers');
select is((select s.failures_in_a_row from agent_status('{plain}') s), 0, 'a success ends the failures in a row');
select is(_complete(p.attempts, p.results, array_fill(null::real, array[p.n]), null, null, null, null, null, null, null),
          p.attempts[p.n:p.n], 'the second time it has only what was left')
from plain p;
select is(_complete(null, null, null, null, null, null, null, null, null, null), '{}', 'nothing of nothing');
select ledger_is_exact();
select not_for('test_web', 'select lakequeue._complete(null, null, null, null, null, null, null, null, null, null)');

select * from finish();
rollback;
