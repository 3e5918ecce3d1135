-- Rules 8 to 11: what an agent's report does in every situation that task and attempt can be in, and that
-- saying it again changes nothing.
begin;
\ir scenarios.sql
select plan(543);

-- --- every situation x every report --------------------------------------------------------------
-- Each cell: the answer, then the status of task and attempt afterwards.

create temporary table expected (
  situation text primary key, result_carried text, result_missing text, failure text, permanent_failure text,
  rate_limited text, cancelled text);
insert into expected values
  ('running',
   'accepted completed succeeded', 'result_missing processing running', 'accepted enqueued failed',
   'accepted failed failed', 'accepted enqueued rate_limited', 'accepted cancelled cancelled'),
  ('running, lease over',
   'accepted completed succeeded', 'result_missing processing running', 'accepted enqueued failed',
   'accepted failed failed', 'accepted enqueued rate_limited', 'accepted cancelled cancelled'),
  ('running, asked to stop',
   'accepted completed succeeded', 'result_missing processing running', 'accepted cancelled failed',
   'accepted cancelled failed', 'accepted cancelled rate_limited', 'accepted cancelled cancelled'),
  ('running, last try',
   'accepted completed succeeded', 'result_missing processing running', 'accepted failed failed',
   'accepted failed failed', 'accepted enqueued rate_limited', 'accepted cancelled cancelled'),
  ('running, no rate limit left',
   'accepted completed succeeded', 'result_missing processing running', 'accepted enqueued failed',
   'accepted failed failed', 'accepted failed rate_limited', 'accepted cancelled cancelled'),
  ('result stored',
   'accepted completed succeeded', 'accepted completed succeeded', 'superseded completed succeeded',
   'superseded completed succeeded', 'superseded completed succeeded', 'superseded completed succeeded'),
  ('result stored, run presumed dead',
   'accepted completed succeeded', 'accepted completed succeeded', 'superseded completed succeeded',
   'superseded completed succeeded', 'superseded completed succeeded', 'superseded completed succeeded'),
  ('confirmed',
   'duplicate completed succeeded', 'duplicate completed succeeded', 'duplicate completed succeeded',
   'duplicate completed succeeded', 'duplicate completed succeeded', 'duplicate completed succeeded'),
  ('reported failure',
   'duplicate enqueued failed', 'duplicate enqueued failed', 'duplicate enqueued failed',
   'duplicate enqueued failed', 'duplicate enqueued failed', 'duplicate enqueued failed'),
  ('reported failure, another runs',
   'duplicate processing failed', 'duplicate processing failed', 'duplicate processing failed',
   'duplicate processing failed', 'duplicate processing failed', 'duplicate processing failed'),
  ('reported failure, another completed',
   'duplicate completed failed', 'duplicate completed failed', 'duplicate completed failed',
   'duplicate completed failed', 'duplicate completed failed', 'duplicate completed failed'),
  ('reported permanent failure',
   'duplicate failed failed', 'duplicate failed failed', 'duplicate failed failed',
   'duplicate failed failed', 'duplicate failed failed', 'duplicate failed failed'),
  ('reported rate limit',
   'duplicate enqueued rate_limited', 'duplicate enqueued rate_limited', 'duplicate enqueued rate_limited',
   'duplicate enqueued rate_limited', 'duplicate enqueued rate_limited', 'duplicate enqueued rate_limited'),
  ('reported that it stopped',
   'duplicate cancelled cancelled', 'duplicate cancelled cancelled', 'duplicate cancelled cancelled',
   'duplicate cancelled cancelled', 'duplicate cancelled cancelled', 'duplicate cancelled cancelled'),
  ('run died, waiting',
   'accepted completed succeeded', 'result_missing enqueued failed', 'superseded enqueued failed',
   'superseded enqueued failed', 'superseded enqueued failed', 'superseded enqueued failed'),
  ('run died, another runs',
   'accepted completed succeeded', 'result_missing processing failed', 'superseded processing failed',
   'superseded processing failed', 'superseded processing failed', 'superseded processing failed'),
  ('run died, failed',
   'superseded failed failed', 'superseded failed failed', 'superseded failed failed',
   'superseded failed failed', 'superseded failed failed', 'superseded failed failed'),
  ('expired, enqueued',
   'accepted completed succeeded', 'result_missing enqueued expired', 'superseded enqueued expired',
   'superseded enqueued expired', 'superseded enqueued expired', 'superseded enqueued expired'),
  ('expired, another runs',
   'accepted completed succeeded', 'result_missing processing expired', 'superseded processing expired',
   'superseded processing expired', 'superseded processing expired', 'superseded processing expired'),
  ('expired, another waits to retry',
   'accepted completed succeeded', 'result_missing enqueued expired', 'superseded enqueued expired',
   'superseded enqueued expired', 'superseded enqueued expired', 'superseded enqueued expired'),
  ('expired, another completed',
   'superseded completed expired', 'superseded completed expired', 'superseded completed expired',
   'superseded completed expired', 'superseded completed expired', 'superseded completed expired'),
  ('expired, failed',
   'superseded failed expired', 'superseded failed expired', 'superseded failed expired',
   'superseded failed expired', 'superseded failed expired', 'superseded failed expired'),
  ('expired, failed, result kept',
   'superseded failed expired', 'superseded failed expired', 'superseded failed expired',
   'superseded failed expired', 'superseded failed expired', 'superseded failed expired'),
  ('expired, completed from the kept result',
   'accepted completed succeeded', 'accepted completed succeeded', 'superseded completed succeeded',
   'superseded completed succeeded', 'superseded completed succeeded', 'superseded completed succeeded'),
  ('expired, failed, retried',
   'accepted completed succeeded', 'result_missing enqueued expired', 'superseded enqueued expired',
   'superseded enqueued expired', 'superseded enqueued expired', 'superseded enqueued expired'),
  ('expired after a request, cancelled',
   'superseded cancelled expired', 'superseded cancelled expired', 'superseded cancelled expired',
   'superseded cancelled expired', 'superseded cancelled expired', 'superseded cancelled expired'),
  ('expired, cancelled in the queue',
   'superseded cancelled expired', 'superseded cancelled expired', 'superseded cancelled expired',
   'superseded cancelled expired', 'superseded cancelled expired', 'superseded cancelled expired'),
  ('superseded',
   'superseded completed superseded', 'superseded completed superseded', 'superseded completed superseded',
   'superseded completed superseded', 'superseded completed superseded', 'superseded completed superseded'),
  ('superseded, reported',
   'duplicate completed superseded', 'duplicate completed superseded', 'duplicate completed superseded',
   'duplicate completed superseded', 'duplicate completed superseded', 'duplicate completed superseded');

-- Reports in that situation, then once more, and undoes it all. What it reports along (usage, run, trace) must be
-- recorded in every case; the second report must change nothing; a result that came must be there to stay.
create function pg_temp.try(situation text, report text)
returns table (outcome text, again text, kept text)
language plpgsql
as $$
declare
  v_attempt bigint;
  v_answer text;
  v_had_result boolean;
  v_runs bigint;
  v_call constant text := $call$ select report(%s, %L, %s, input_tokens => 40, output_tokens => 2, llm_cost => 0.5,
    usage_complete => true, run_id => 77, trace_id => 'tr-1', error_class => 'e') $call$;
  v_statement text;
begin
  begin
    v_attempt := attempt_in(situation);
    v_had_result := exists (select from results r where r.attempt_id = v_attempt);
    v_runs := (select count(*) from task_attempts a where a.task_id = task_of(v_attempt) and a.status = 'running'
               and a.id <> v_attempt);
    v_statement := format(v_call, v_attempt,
      case when report like 'result%' then 'success' else report end,
      case when report = 'result_carried' then $r$'{"found": true}'$r$ else 'null' end);
    execute v_statement into v_answer;
    outcome := v_answer || ' ' || states(v_attempt);
    kept := concat_ws(', ',
      (select format('%s+%s tokens, USD %s, %s, run %s, trace %s', a.input_tokens, a.output_tokens, a.llm_cost,
                     case when a.usage_complete then 'complete' else 'incomplete' end, a.run_id, a.trace_id)
       from task_attempts a where a.id = v_attempt),
      case when (v_had_result or report = 'result_carried' and v_answer <> 'duplicate')
                <> exists (select from results r where r.attempt_id = v_attempt) then 'wrong about the result' end,
      case when v_runs <> (select count(*) from task_attempts a where a.task_id = task_of(v_attempt)
                           and a.status = 'running' and a.id <> v_attempt)
                and v_answer || report <> 'acceptedresult_carried' then 'touched another attempt' end,
      (select 'unreported' from task_attempts a where a.id = v_attempt and a.reported_at is null),
      (select 'run may live' from task_attempts a where a.id = v_attempt and a.run_ended_at is null));
    perform advance('1 min');
    again := digest();
    execute v_statement into v_answer;
    again := v_answer || case when digest() <> again then ', but something changed' else '' end;
    raise exception using errcode = 'ZZ999';
  exception when sqlstate 'ZZ999' then
    return next;
  end;
end $$;

create temporary table cells as
select e.situation, r.report, r.expected, t.outcome, t.again, t.kept
from expected e
cross join lateral (values
  ('result_carried', e.result_carried), ('result_missing', e.result_missing), ('failure', e.failure),
  ('permanent_failure', e.permanent_failure), ('rate_limited', e.rate_limited), ('cancelled', e.cancelled)) r(report, expected)
cross join lateral pg_temp.try(e.situation, r.report) t;

select is(count(*), 174::bigint, 'all 29 situations were tried with all 6 reports') from cells;
select is(c.outcome, c.expected, format('%s: %s', c.situation, c.report)) from cells c order by c.situation, c.report;
select is(
  c.again, case when c.expected like 'result_missing%' then 'result_missing' else 'duplicate' end,
  format('%s: %s, said twice', c.situation, c.report))
from cells c order by c.situation, c.report;
select is(
  c.kept,
  case
    -- An agent that is to come back has not reported yet, and its run is alive unless it was known dead before.
    when c.expected like 'result_missing%' and (c.situation like 'running%' or c.situation = 'superseded')
      then '40+2 tokens, USD 0.5, complete, run 77, trace tr-1, unreported, run may live'
    when c.expected like 'result_missing%' then '40+2 tokens, USD 0.5, complete, run 77, trace tr-1, unreported'
    else '40+2 tokens, USD 0.5, complete, run 77, trace tr-1'
  end,
  format('%s: %s, what came along is recorded', c.situation, c.report))
from cells c order by c.situation, c.report;

-- --- the same without what comes along: a result_missing changes nothing whatever -------------------

select start() as a \gset
select says_and_changes_nothing(
  format('select report(%s, ''success'')', :a), 'result_missing', 'a success without a result changes nothing');
select is(report(:a, 'success', '{"total": 1}'), 'accepted', 'the agent comes back with its result');
select says_and_changes_nothing(format('select report(%s, ''success'')', :a), 'duplicate', 'and has reported by then');
select attempt_is(:a, '{"reported_at": "2026-01-01T12:00:00+00:00", "run_ended_at": "2026-01-01T12:00:00+00:00"}',
                  'both at the time of the report that counted');

-- --- rule 8: the first success wins, from whichever attempt -----------------------------------------

select start() as first \gset
select task_of(:first) as task \gset
select run_out(:first);
select claim_again(:task) as second \gset
select is(report(:first, 'success', '"of the first"'), 'accepted', 'a success of the attempt that had expired is welcome');
select attempt_is(:second, '{"status": "superseded", "reported_at": null, "run_ended_at": null}',
                  'it closes the one that runs, whose run may go on');
select is(answer, 'lost', 'whose agent is told so') from extend_leases(array[:second], array[token(:second)]);
select is(report(:second, 'success', '"of the second"'), 'superseded', 'its own success comes too late');
select results_eq(
  format('select attempt_id, result from results where task_id = %s order by attempt_id', :task),
  format($$ values (%s::bigint, '"of the first"'::jsonb), (%s, '"of the second"') $$, :first, :second),
  'both results are kept');
select is(result, '"of the first"', 'the first one is the task''s')
from task_attempts a join results r on r.attempt_id = a.id where a.task_id = :task and a.status = 'succeeded';
select task_is(:task, '{"status": "completed", "locked_by": null, "lease_expires_at": null, "failures": 1, "error": null}',
               'the task is completed, once');

-- The other way round: the running one first.
select start() as first \gset
select task_of(:first) as task \gset
select run_out(:first);
select claim_again(:task) as second \gset
select is(report(:second, 'success', '2'), 'accepted', 'the running attempt succeeds');
select is(report(:first, 'success', '1'), 'superseded', 'then the expired one: too late');
select attempt_is(:first, '{"status": "expired"}', 'which stays expired');

-- --- a report may come before the worker has stored the run id ---------------------------------------

select start() as a \gset
select is(report(:a, 'success', '1', run_id => 5, trace_id => 'tr-5'), 'accepted', 'an agent may be faster than its worker');
select results_eq(format('select * from record_runs(array[%s]::bigint[], array[5])', :a),
                  format('values (%s::bigint, ''duplicate'')', :a), 'which then finds the run noted already');
select is(report(:a, 'success', run_id => 6, trace_id => 'tr-6'), 'duplicate', 'a second report cannot change them');
select attempt_is(:a, '{"run_id": 5, "trace_id": "tr-5"}', 'run and trace are recorded once');

select ledger_is_exact();
select not_for('test_agent', $$ select lakequeue._apply_callback(1, 'x', 'success', null, null, null, null, null, null,
  null, null, null, null, null, null) $$);

select * from finish();
rollback;
