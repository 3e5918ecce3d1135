-- The list of tasks: the same as sorting them all, page by page, under every filter.
begin;
\ir scenarios.sql
select plan(66);

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

-- --- a part of a path, in more tasks than one call looks at ------------------------------------------
create temporary table seed as select (random() * 1e9)::integer as seed;
select diag('seed ' || seed), setseed(seed / 1e9) from seed;
select enqueue_task('list a', '/one', customer => 'acme') as sample \gset
insert into tasks (agent_id, customer, document_path, priority, status, created_at, finished_at, estimated_tokens)
select a.id, (array['', 'acme', 'acme', 'umbrella'])[(random() * 3)::integer + 1], case when random() < 0.01 then '/A/Needle-' else '/b/' end || n, (random() * 9)::integer,
       k.status, k.at - interval '1 hour', case when k.status <> 'enqueued' then k.at end, t.estimated_tokens
from tasks t
cross join generate_series(1, 14000) n
cross join lateral (select (array['list a', 'list a', 'list b'])[(random() * 2 + 0 * n)::integer + 1] as agent) w
join agents a on a.name = w.agent
cross join lateral (  -- many at the same moment
  select _now() - make_interval(hours => (random() * 1500 + 0 * n)::integer) as at,
         (array['completed', 'completed', 'completed', 'failed', 'enqueued'])[(random() * 4 + 0 * n)::integer + 1]::task_status as status) k
where t.id = :sample;
insert into task_rollups (agent_id, customer, status, day, tasks, input_tokens, output_tokens, cached_tokens, llm_cost)
select t.agent_id, t.customer, t.status, _day(t.finished_at), count(*), 0, 0, 0, 0
from tasks t where t.id > :sample group by 1, 2, 3, 4
on conflict (agent_id, status, day, customer) do update set tasks = task_rollups.tasks + excluded.tasks;
-- all that is found by going on, and the most that one call has looked at
create function pg_temp.found(document text, page_size integer, customers text[] default null, statuses text[] default null, from_day date default null)
returns table (tasks bigint[], calls integer, most bigint) language plpgsql as $$
declare
  v_page jsonb[];
  v_at timestamptz := 'infinity';
  v_id bigint := 9223372036854775807;
  v_last jsonb;
begin
  tasks := '{}'; calls := 0; most := 0;
  loop
    v_page := array(select to_jsonb(l) from lakequeue.list_tasks(from_day, null, statuses, null, customers, page_size, v_at, v_id, document) l);
    calls := calls + 1;
    v_last := v_page[cardinality(v_page)];
    if exists (select from unnest(v_page[:cardinality(v_page) - 1]) r where not (r ->> 'fits')::boolean) then
      raise 'a row that does not fit, and more behind it';
    end if;
    tasks := tasks || array(select (p.row ->> 'task_id')::bigint from unnest(v_page) with ordinality p(row, place) where (p.row ->> 'fits')::boolean order by p.place);
    most := greatest(most, (
      select count(*) from lakequeue.tasks t
      where (coalesce(t.finished_at, t.created_at), t.id) < (v_at, v_id)
        and (coalesce(t.finished_at, t.created_at), t.id) >= ((v_last ->> 'listed_at')::timestamptz, (v_last ->> 'task_id')::bigint)
        and (statuses is null or t.status::text = any(statuses)) and (customers is null or t.customer = any(customers))));
    exit when v_last is null or (cardinality(v_page) < page_size and (v_last ->> 'fits')::boolean) or calls > 1000;
    v_at := v_last ->> 'listed_at';
    v_id := v_last ->> 'task_id';
  end loop;
  return next;
end $$;
create function pg_temp.there(document text, customers text[] default null, statuses text[] default null, from_day date default null) returns bigint[]
language sql as $$
  select coalesce(array_agg(t.id order by coalesce(t.finished_at, t.created_at) desc, t.id desc), '{}')
  from lakequeue.tasks t cross join lakequeue.installation i
  where strpos(lower(t.document_path), document) > 0 and (customers is null or t.customer = any(customers))
    and (statuses is null or t.status::text = any(statuses))
    and (from_day is null or t.finished_at is null or (t.finished_at at time zone i.time_zone)::date >= from_day)
$$;
select cmp_ok(cardinality(pg_temp.there('needle')), '>', 50, '(there is something to find)');
select ok(f.tasks = pg_temp.there('needle') and f.calls > 1 and f.most <= 5000, 'pages of 1000: each once, in order; ' || f.calls || ' calls, ' || f.most || ' at most')
from pg_temp.found('nEEdle', 1000) f;
select ok(f.tasks = pg_temp.there('needle', null, '{failed}') and f.calls > 2, 'pages of 7 of failed ones: ' || f.calls || ' calls')
from pg_temp.found('needle', 7, statuses => '{failed}') f;
select ok(f.tasks = pg_temp.there('needle', '{acme}') and f.calls > 1 and f.most <= 5000, 'of a customer: ' || f.calls || ' calls, ' || f.most || ' at most')
from pg_temp.found('needle', 1000, '{acme}') f;
select ok(f.tasks = pg_temp.there('needle', null, '{enqueued}') and f.calls > 1, 'of those that wait: ' || f.calls || ' calls') from pg_temp.found('needle', 20, statuses => '{enqueued}') f;
select ok(f.tasks = pg_temp.there('needle', '{umbrella,nobody}', '{completed,enqueued}', _day(_now()) - 20), 'of all of it: ' || f.calls || ' calls')
from pg_temp.found('needle', 20, '{umbrella,nobody}', '{completed,enqueued}', _day(_now()) - 20) f;
select ok(f.tasks = pg_temp.there('/b/', null, '{failed}'), 'what nearly all have') from pg_temp.found('/b/', 1000, statuses => '{failed}') f;
select ok(f.tasks = '{}' and f.calls between 2 and 60, 'what is nowhere is looked for to the end: ' || f.calls || ' calls') from pg_temp.found('nowhere', 50) f;
select is((select array_agg(l.fits) from list_tasks(document => 'nowhere') l), '{f}', 'of which each tells how far it came');
select is((select array_agg(distinct l.fits) from list_tasks(page_size => 1000) l), '{t}', 'without a document all fit');

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
