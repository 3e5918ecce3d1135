-- The list of tasks: the same as sorting them all, page by page, under every filter.
begin;
\ir scenarios.sql
select plan(56);

-- --- the truth -------------------------------------------------------------------------------------
create function pg_temp.listed(from_day date, to_day date, statuses text[], agents text[], customers text[]) returns bigint[]
language sql as $$
  select coalesce(array_agg(t.id order by coalesce(t.finished_at, t.created_at) desc, t.id desc), '{}')
  from lakequeue.tasks t
  join lakequeue.agents g on g.id = t.agent_id
  cross join lakequeue.installation i
  where (listed.agents is null or g.name = any(listed.agents)) and (listed.customers is null or t.customer = any(listed.customers))
    and (listed.statuses is null or t.status::text = any(listed.statuses))
    and (t.finished_at is null
         or ((from_day is null or (t.finished_at at time zone i.time_zone)::date >= from_day)
             and (to_day is null or (t.finished_at at time zone i.time_zone)::date <= to_day)))
$$;
-- all pages one after the other, as a reader turns them
create function pg_temp.turned(from_day date, to_day date, statuses text[], agents text[], customers text[], page_size integer) returns bigint[]
language plpgsql as $$
declare
  v_all bigint[] := '{}';
  v_page bigint[];
  v_at timestamptz;
  v_id bigint;
begin
  loop
    select coalesce(array_agg(l.task_id order by l.ordinality), '{}'), (array_agg(l.listed_at order by l.ordinality desc))[1],
           (array_agg(l.task_id order by l.ordinality desc))[1]
    into v_page, v_at, v_id
    from lakequeue.list_tasks(from_day, to_day, statuses, agents, customers, page_size, v_at, v_id) with ordinality l;
    v_all := v_all || v_page;
    exit when cardinality(v_page) < page_size or cardinality(v_all) > 10000;
  end loop;
  return v_all;
end $$;
create temporary table filters (from_day date, to_day date, statuses text[], agents text[], customers text[]);

update installation set time_zone = 'Asia/Tokyo';
do $$
declare v_situation text;
begin
  perform set_clock('2026-01-01 12:00+00');
  foreach v_situation in array array['running', 'running, asked to stop', 'result stored', 'confirmed', 'reported failure',
      'reported permanent failure', 'reported rate limit', 'reported that it stopped', 'expired, enqueued', 'expired, failed',
      'expired, cancelled in the queue', 'superseded'] loop
    perform attempt_in(v_situation);
    perform advance('5 hours');
  end loop;
  perform configure_agent('list a'), configure_agent('list b');
  for n in 1..40 loop
    perform enqueue_task('list ' || substr('ab', n % 2 + 1, 1), '/' || n, n % 10, (array['', 'acme', 'umbrella'])[n % 3 + 1]);
    if n % 8 = 0 then perform advance('1 second'); end if;  -- many at the same moment
  end loop;
  perform report(d.attempt_id, (array['success', 'permanent_failure', 'failure'])[d.task_id % 3 + 1], case when d.task_id % 3 = 0 then '{"x": 1}'::json end)
  from dequeue_tasks('w', 14, array['list a', 'list b']) d;
  perform dequeue_tasks('w', 5, array['list a', 'list b']);
  for n in 0..9 loop
    perform enqueue_task('list a', '/priority', n, 'acme');
  end loop;
end $$;
insert into filters values (null, null, null, null, null), (null, null, '{enqueued}', null, null), (null, null, '{processing}', null, null),
  (null, null, '{completed}', null, null), (null, null, '{failed,cancelled}', null, null), (null, null, '{completed,processing}', '{"list a"}', null),
  (null, null, null, '{"list a","list b"}', '{acme}'), (null, null, null, null, '{"",umbrella}'), (null, null, null, null, '{nobody}'),
  ('2026-01-03', null, null, null, null), (null, '2026-01-03', null, null, null), ('2026-01-03', '2026-01-03', '{completed,failed,cancelled}', null, null),
  ('2026-01-04', '2026-01-02', null, null, null), (null, null, '{}', null, null), (null, null, null, '{}', null), (null, null, null, null, '{}');

select cmp_ok((select count(distinct (status, retry_at is null)) from tasks), '>=', 6::bigint, '(every status occurs, with tasks that wait for a retry)');
select cmp_ok((select max(n) from (select count(*) as n from tasks group by coalesce(finished_at, created_at)) m), '>=', 8::bigint, '(many stand at the same moment)');
select is(pg_temp.turned(from_day, to_day, statuses, agents, customers, size), pg_temp.listed(from_day, to_day, statuses, agents, customers),
  format('pages of %s under %s are the list', size, f))
from filters f cross join unnest(array[1000, 7]) size;
select is(pg_temp.turned(null, null, null, null, null, 1), pg_temp.listed(null, null, null, null, null), 'pages of one, too');
select cmp_ok((select count(*) from filters f where pg_temp.listed(f.from_day, f.to_day, f.statuses, f.agents, f.customers) <> '{}'), '>=', 11::bigint,
  '(most filters match something)');
select is(pg_temp.turned(null, null, '{failed,failed}', '{"list a","list a"}', '{acme,acme}', 3), pg_temp.listed(null, null, '{failed}', '{"list a"}', '{acme}'),
  'what a filter names twice is listed once');
select is((select count(*) from list_tasks()), 50::bigint, 'a page has 50 unless told otherwise');

-- --- a row -----------------------------------------------------------------------------------------
create temporary table done as select start() as attempt;
select advance('3 minutes');
select report(attempt, 'success', '{"x": 1}', 0.75) from done;
select results_eq(
  $$select task_id, agent, customer, document_path, status, priority, created_at, finished_at, retry_at, attempts, confidence, error, listed_at
    from list_tasks(page_size => 1)$$,
  $$select t.id, agent_of(t.id), 'acme', '/a.pdf', 'completed', 5::smallint, t.created_at, t.created_at + interval '3 minutes', null::timestamptz, 1, 0.75::real,
           null::text, t.finished_at from tasks t where t.id = (select task_of(attempt) from done)$$,
  'a finished task stands where it finished, with its result''s confidence');
create temporary table broken as select start() as attempt;
select report(attempt, 'failure', error => '"no text layer"') from broken;
select results_eq(
  $$select l.task_id, l.status, l.attempts, l.confidence, l.error, l.listed_at = l.created_at, l.finished_at, l.retry_at > l.created_at
    from list_tasks(statuses => array['enqueued'], page_size => 1) l$$,
  $$select task_of(attempt), 'enqueued', 1, null::real, 'no text layer', true, null::timestamptz, true from broken$$,
  'a live one where it was enqueued, with its last error and when it is tried again');
select is((select count(*) from list_tasks(after_at => '-infinity')), 0::bigint, 'after the end there is nothing');

select is((select array_agg(l.document_path) from list_tasks(document => 'PRIO', page_size => 3) l), '{/priority,/priority,/priority}', 'part of a document''s path, capitals or not');
select is((select count(*) from list_tasks(document => 'a%', page_size => 1000)), 0::bigint, 'and no pattern');
select is((select count(*) from list_tasks(document => '', page_size => 1)), 1::bigint, 'nothing to look for: all');
select is((select count(*) from list_tasks(document => '/priority', statuses => '{failed}')), 0::bigint, 'beside the rest of the filter');

select refused(format('select * from list_tasks(page_size => %s)', n), 'LQ400', 'a page of ' || n || ' is refused') from unnest(array['null', '0', '-1', '1001']) n;
select refused($$select * from list_tasks(statuses => array['done'])$$, 'LQ400', 'an unknown status is refused');
select refused($$select * from list_tasks(agents => array['list nobody'])$$, 'LQ404', 'so is an unknown agent');

set session authorization test_reader;
select is((select count(*) from lakequeue.list_tasks(page_size => 1)), 1::bigint, 'a reader may list');
set session authorization test_web;
select is((select count(*) from lakequeue.list_tasks(page_size => 1)), 1::bigint, 'the web process may');
set session authorization test_owner;
select not_for('test_app', 'select * from lakequeue.list_tasks()');
select not_for('test_worker', 'select * from lakequeue.list_tasks()');
select not_for('test_agent', 'select * from lakequeue.list_tasks()');

select * from finish();
rollback;
