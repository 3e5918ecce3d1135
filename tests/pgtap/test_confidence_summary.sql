-- confidence_summary: counts and mean equal what the results say, under every filter; the newest come first.
begin;
\ir scenarios.sql
select plan(22);

select new_agent() as agent \gset
select new_agent() as other \gset

create function pg_temp.complete(agent text, confidence real, customer text default 'acme') returns void
language plpgsql security definer set search_path = lakequeue, scenario, test, pg_temp as $$
begin
  perform enqueue_task(complete.agent, '/a.pdf', customer => complete.customer);
  perform report((select d.attempt_id from dequeue_tasks('w', 1, array[complete.agent]) d), 'success', '1', complete.confidence);
  perform advance('1 hour');
end $$;

select results_eq(format('select * from confidence_summary(agents => array[%L])', :'agent'),
  'values (0::bigint, 0::bigint, null::real, 0::bigint, false)', 'nothing yet');
select pg_temp.complete(:'agent', 0.2);            -- 12:00
select pg_temp.complete(:'agent', 0.8);            -- 13:00
select pg_temp.complete(:'agent', null);           -- 14:00
select pg_temp.complete(:'agent', 1, 'globex');    -- 15:00
select pg_temp.complete(:'other', 0.5);            -- 16:00
select start() as running \gset

select results_eq(format('select s.documents, s.rated, s.low_rated, s.more from confidence_summary(agents => array[%L]) s', :'agent'),
  'values (4::bigint, 3::bigint, 1::bigint, false)', 'documents, rated ones, low ones');
select is((select s.mean::numeric(5, 4) from confidence_summary(agents => array[:'agent']) s), 0.6667, 'the mean of the rated ones');
select is((select s.rated from confidence_summary(agents => array[:'agent', :'other']) s), 4::bigint, 'two agents');
select is((select s.low_rated from confidence_summary(agents => array[:'agent'], low => 0.2) s), 0::bigint, 'the bound itself is not low');
select is((select s.low_rated from confidence_summary(agents => array[:'agent'], low => 1) s), 2::bigint, 'another bound');
select is((select s.documents from confidence_summary(agents => array[:'agent'], customers => array['globex']) s), 1::bigint, 'a customer');
select is((select s.documents from confidence_summary(agents => array[:'agent'], statuses => array['failed']) s), 0::bigint, 'only failed ones: none');
select is((select s.documents from confidence_summary(agents => array[:'agent'], statuses => array['completed', 'failed']) s), 4::bigint, 'completed ones among others');
select is((select s.documents from confidence_summary('2026-01-01', '2026-01-01', agents => array[:'agent']) s), 4::bigint, 'the day');
select is((select s.documents from confidence_summary('2026-01-02', agents => array[:'agent']) s), 0::bigint, 'from the next day on');
select is((select s.documents from confidence_summary(null, '2025-12-31', agents => array[:'agent']) s), 0::bigint, 'up to the day before');
update installation set time_zone = 'Pacific/Auckland'; -- 12:00 UTC is 1:00 of 2 January there
select is((select s.documents from confidence_summary('2026-01-02', '2026-01-02', agents => array[:'agent']) s), 4::bigint, 'a day in the reporting time zone');

select results_eq(format('select s.documents, s.rated, s.mean, s.more from confidence_summary(agents => array[%L, %L], sample => 2) s', :'agent', :'other'),
  'values (2::bigint, 2::bigint, 0.75::real, true)', 'a small sample takes the newest, and says that there are more');
select is((select s.more from confidence_summary(agents => array[:'agent'], sample => 4) s), false, 'a sample of exactly all');

select refused(format('select confidence_summary(sample => %s)', n), 'LQ400', 'sample ' || n) from unnest(array['0', '10001']) n;
select refused(format('select confidence_summary(low => %s)', n), 'LQ400', 'low ' || n) from unnest(array['-0.1', '1.1']) n;
select refused('select confidence_summary(statuses => array[''done''])', 'LQ400', 'a status that there is not');

set session authorization test_web;
select lives_ok('select confidence_summary()', 'the web process may ask');
set session authorization test_agent;
select throws_ok('select confidence_summary()', '42501', null, 'an agent may not');

select * from finish();
rollback;
