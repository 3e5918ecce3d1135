-- Tasks that were passed over: since when, once, and when they will be overdue.
begin;
\ir scenarios.sql
select plan(7);

select set_clock('2026-03-01 09:00+00');
select configure_endpoint('_po e', max_passed_over => '3 minutes'), configure_endpoint('_po other'), configure_agent('_po', model_endpoint => '_po e');
create temporary table po as select enqueue_task('_po', '/' || n) as id, n from generate_series(1, 3) n;
-- how long after nine each has been passed over first, and when something will be overdue at the endpoints
create function pg_temp.noted() returns text language sql as $$
  select format('%s | %s', string_agg(coalesce((t.passed_over_at - '2026-03-01 09:00+00')::text, '-'), ' ' order by t.id),
                (select string_agg(coalesce((e.overdue_at - '2026-03-01 09:00+00')::text, '-'), ' ' order by e.name)
                 from lakequeue.model_endpoints e where starts_with(e.name, '_po ')))
  from lakequeue.tasks t join po using (id)
$$;
create function pg_temp.pass(variadic numbers integer[]) returns text language sql as $$
  select lakequeue._note_passed_over(array(select e.id from lakequeue.model_endpoints e where e.name = '_po e'),
                                     array(select p.id from po p where p.n = any(numbers)));
  select pg_temp.noted()
$$;
update model_endpoints set overdue_at = null where starts_with(name, '_po ');
select is(pg_temp.noted(), '- - - | - -', '(nothing yet)');
select is(pg_temp.pass(variadic '{}'), '- - - | - -', 'of none nothing');
select is(pg_temp.pass(2), '- 00:00:00 - | 00:03:00 -', 'the first time is noted, and when it will be overdue where the later ones were admitted');
select advance('1 minute');
select is(pg_temp.pass(2), '- 00:00:00 - | 00:03:00 -', 'a second time changes nothing');
select is(pg_temp.pass(2, 3), '- 00:00:00 00:01:00 | 00:03:00 -', 'another task has a time of its own; what is overdue first stays');
update model_endpoints set overdue_at = null where name = '_po e';
select is(pg_temp.pass(3), '- 00:00:00 00:01:00 | - -', 'who was noted before is no reason to look again');

set session authorization test_worker;
select throws_ok($$select lakequeue._note_passed_over('{}', '{}')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
