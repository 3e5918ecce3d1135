-- Rule 10: complete beats incomplete, a trace beats a callback, else the larger number stays; set, never added. In
-- whatever order reports come, and however often, the end is the same.
begin;
\ir scenarios.sql
select plan(40);

-- What stands after these reports, each input+output+cached/cost/c or i/source.
create type pg_temp.report as (input bigint, output bigint, cached bigint, cost numeric, complete boolean, source text);
create function pg_temp.after(variadic reports pg_temp.report[])
returns text language plpgsql
as $$
declare
  v_report pg_temp.report;
  v_stands text;
begin
  begin
    declare
      v_attempt bigint := start();
    begin
      foreach v_report in array reports loop
        perform _record_usage(v_attempt, v_report.input, v_report.output, v_report.cached, v_report.cost,
                              v_report.complete, v_report.source);
      end loop;
      select concat_ws(' ', coalesce(a.input_tokens::text, '?'), coalesce(a.output_tokens::text, '?'), coalesce(a.cached_tokens::text, '?'),
                       coalesce('$' || trim_scale(a.llm_cost), '$?'),
                       case when a.usage_complete then 'complete' else 'incomplete' end, a.usage_source)
      into v_stands from task_attempts a where a.id = v_attempt;
    end;
    raise exception using errcode = 'ZZ999';
  exception when sqlstate 'ZZ999' then
    return v_stands;
  end;
end $$;

-- --- pairs ---------------------------------------------------------------------------------------

create temporary table pairs (description text, first pg_temp.report, second pg_temp.report, stands text);
insert into pairs values
  ('the larger of two incomplete callbacks', (10, 5, 1, 0.1, false, 'callback'), (20, 8, 2, 0.2, false, 'callback'), '20 8 2 $0.2 incomplete callback'),
  ('number by number', (10, 8, null, 0.1, false, 'callback'), (20, 5, 2, null, false, 'callback'), '20 8 2 $0.1 incomplete callback'),
  ('complete beats a larger incomplete one', (99, 99, 99, 9, false, 'callback'), (20, 8, 2, 0.2, true, 'callback'), '20 8 2 $0.2 complete callback'),
  ('a trace beats a larger callback', (99, 99, 99, 9, false, 'callback'), (20, 8, 2, 0.2, false, 'trace'), '20 8 2 $0.2 incomplete trace'),
  ('a complete callback beats a larger incomplete trace', (99, 99, 99, 9, false, 'trace'), (20, 8, 2, 0.2, true, 'callback'), '20 8 2 $0.2 complete callback'),
  ('a complete trace beats a larger complete callback', (99, 99, 99, 9, true, 'callback'), (20, 8, 2, 0.2, true, 'trace'), '20 8 2 $0.2 complete trace'),
  ('a complete trace beats an incomplete trace', (99, 99, 99, 9, false, 'trace'), (20, 8, 2, 0.2, true, 'trace'), '20 8 2 $0.2 complete trace'),
  ('the larger of two complete traces', (99, 7, 3, 9, true, 'trace'), (20, 8, 2, 0.2, true, 'trace'), '99 8 3 $9 complete trace'),
  ('0 is a number', (0, 0, 0, 0, true, 'trace'), (20, 8, 2, 0.2, true, 'callback'), '0 0 0 $0 complete trace'),
  ('a price is kept where the better numbers have none', (99, 99, 99, 9, true, 'callback'), (20, 8, 2, null, true, 'trace'), '20 8 2 $9 complete trace'),
  ('a cost alone is worth recording', (null, null, null, 0.3, false, 'callback'), (20, 8, 2, null, true, 'callback'), '20 8 2 $0.3 complete callback'),
  ('nothing known is no report', (null, null, null, null, false, 'trace'), (20, 8, 2, null, false, 'callback'), '20 8 2 $? incomplete callback');
select is(pg_temp.after(p.first, p.second), p.stands, p.description) from pairs p;
select is(pg_temp.after(p.second, p.first), p.stands, p.description || ', the other way round') from pairs p;
select is(pg_temp.after(p.first, p.second, p.second, p.first, p.second), p.stands, p.description || ', again and again') from pairs p
where p.description in ('number by number', 'the larger of two complete traces', 'a trace beats a larger callback');

-- --- all orders of many ----------------------------------------------------------------------------

create temporary table many (number integer, report pg_temp.report);
insert into many values
  (1, (30, 2, 0, null, false, 'callback')), (2, (31, 3, 5, 0.4, true, 'callback')), (3, (500, 300, 0, 0.5, false, 'trace')),
  (4, (32, 4, 6, 0.45, true, 'trace')), (5, (33, 3, 6, 0.44, true, 'trace'));
create temporary table orders as
with recursive chosen as (
  select array[m.number] as numbers, array[m.report] as reports from many m
  union all
  select c.numbers || m.number, c.reports || m.report from chosen c join many m on m.number <> all(c.numbers)
)
select c.reports from chosen c where cardinality(c.numbers) = 5;
select is(count(*), 120::bigint, 'five reports can come in 120 orders') from orders;
select results_eq('select distinct pg_temp.after(variadic o.reports) from orders o',
                  $$ values ('33 4 6 $0.45 complete trace') $$, 'in all of them the end is the same');

-- --- what it says and refuses ------------------------------------------------------------------------

select start() as a \gset
select is(_record_usage(:a, null, null, null, null, false, 'trace'), false, 'nothing known: nothing recorded');
select attempt_is(:a, '{"usage_source": null, "usage_complete": false}', 'not even a source');
select is(_record_usage(:a, 7, 7, 7, 7, true, 'trace'), true, 'these numbers stand now');
select is(_record_usage(:a, 9, 9, 9, 9, true, 'callback'), false, 'these do not');
select refused(format('select _record_usage(%s, %s)', :a, v.arguments), 'LQ400', v.arguments)
from (values ('-1, 0, 0, 0, false, ''trace'''), ('0, 0, 1000000000001, 0, true, ''trace'''), ('0, 0, 0, ''NaN'', true, ''trace'''),
             ('0, null, 0, 0, true, ''trace'''), ('null, null, null, null, true, ''trace''')) v(arguments);
select attempt_is(:a, '{"input_tokens": 7, "llm_cost": 7}', 'what was refused changed nothing');

select not_for('test_worker', 'select lakequeue._record_usage(1, 1, 1, 1, 1, true, ''trace'')');
select * from finish();
rollback;
