-- Costs by customer, agent, status and day: sums and medians per task, coverage, age; unknown is not 0.
begin;
\ir scenarios.sql
select plan(51);

create function pg_temp.told(by text[] default '{}', kind text default 'llm') returns setof text language sql as $$
  select concat_ws(' ', c.customer, c.status, c.day, coalesce(c.currency, 'nothing'), c.tasks, c.priced || '/' || c.ran, coalesce(trim_scale(c.cost)::text, '-'), coalesce(trim_scale(c.median_cost)::text, '-'))
  from cost_report(by => told.by) c where c.kind = told.kind
$$;
select is_empty($$select pg_temp.told()$$, 'nothing costs nothing');

update installation set time_zone = 'Asia/Tokyo';
select set_clock('2026-01-01 12:00+00');
select job_run(1, 0.1);
select job_run(2, 0.4);
select set_clock('2026-01-01 16:00+00');
select job_run(3, 0.2);
select job_run(4, 3, outcome => 'permanent_failure');
select job_run(5);
select is((select pg_temp.told()), 'USD 5 4/5 3.7 0.2', 'all: sum, median of those whose cost is known, coverage');
select results_eq($$select pg_temp.told('{day}')$$, $$values ('2026-01-02 USD 3 2/3 3.2 0.2'), ('2026-01-01 USD 2 2/2 0.5 0.1')$$,
  'by day in the reporting time zone; of an even number the lower in the middle');
select results_eq($$select pg_temp.told('{customer,status}')$$, $$values ('acme completed USD 4 3/4 0.7 0.2'), ('acme failed USD 1 1/1 3 3')$$, 'by two');
select is((select count(distinct c.agent) from cost_report(by => '{agent}') c), 5::bigint, 'by agent');
select is((select count(*) from cost_report() c where c.kind = 'llm' and c.day is not null and c.agent is not null), 5::bigint, 'by all four');
select is((select c.cost from cost_report(statuses => '{failed}', by => '{}') c where c.kind = 'llm'), 3.0, 'what failed tasks cost');
select is((select c.median_cost from cost_report(from_day => '2026-01-02', by => '{}') c where c.kind = 'llm'), 0.2, 'from a day on');
select is((select c.cost from cost_report(to_day => '2026-01-01', customers => '{acme}', by => '{}') c where c.kind = 'llm'), 0.5, 'up to a day, of a customer');
select is_empty($$select from cost_report(customers => '{nobody}')$$, 'of a customer there is not');

-- attempts of one task, live tasks, tasks that never ran
select job_run(6, 1, outcome => 'failure', job => null);
select set_clock('2026-01-02 12:00+00');
select new_task();
select start();
select cancel_task(new_task(), actor => 'ops');
create temporary table again as select task_of(start(2)) as task;
select report(a.id, 'failure', llm_cost => 0.5) from task_attempts a join again t on t.task = a.task_id;
select is((select pg_temp.told()), 'USD 10 5/6 5.2 0.4', 'live ones and those that never ran count, but not in coverage and median');
select report(claim_again(task), 'success', '1', llm_cost => 0.25) from again;
select is((select c.cost || ' ' || c.median_cost from cost_report(from_day => '2026-01-02', statuses => '{completed}', by => '{}', agents => array[(select agent_of(task) from again)]) c),
  '0.75 0.75', 'a task costs what all its attempts cost');
select is((select sum(m.llm_cost) from queue_metrics() m), (select c.cost from cost_report(by => '{}') c where c.kind = 'llm'), 'it is the sum that the overview shows');
select fold_rollups();
select is((select sum(m.llm_cost) from queue_metrics() m), (select c.cost from cost_report(by => '{}') c where c.kind = 'llm'), 'after folding too');
select results_eq($$select pg_temp.told('{day}')$$,
  $$values ('USD 2 0/0 - -'), ('2026-01-02 USD 6 4/5 4.95 0.75'), ('2026-01-01 USD 2 2/2 0.5 0.1')$$, 'live tasks have no day, and what nobody told is not 0');

-- compute
select results_eq($$select pg_temp.told(kind => 'compute')$$, $$values ('nothing 10 0/5 - -')$$, 'nothing was asked: the job runs are known, their cost is not');
select bill(usage('1', 2), usage('1', 1, 'PHOTON'), usage('2', 5), usage('2', 4, currency => 'EUR'), usage('3', 7), usage('3', null, 'NEW'), usage('4', 0));
select results_eq($$select pg_temp.told(kind => 'compute')$$, $$values ('EUR 10 1/5 4 4'), ('USD 10 3/5 15 3')$$,
  'each currency apart; not billed and not priced ones are not covered; 0 is known');
select results_eq($$select pg_temp.told('{status}', 'compute')$$, $$values ('completed EUR 5 1/4 4 4'), ('completed USD 5 2/4 15 3'), ('failed USD 2 1/1 0 0')$$, 'by status');
create temporary table asked as select _now() as at;
select advance('8 days');
select is((select c.as_of from cost_report(by => '{}') c where c.kind = 'compute' limit 1), (select at from asked), 'as of when it was asked');
select is((select c.as_of from cost_report(by => '{}') c where c.kind = 'llm'), _now(), 'the model cost is as of now');

-- compute follows its task
create function pg_temp.of_two(status text) returns setof text language sql as $$
  select format('%s %s/%s %s', c.currency, c.priced, c.ran, trim_scale(c.cost)) from cost_report(statuses => array[of_two.status], customers => '{two}', by => '{}') c
  where c.kind = 'compute'
$$;
create temporary table two as select enqueue_task(new_agent(1), '/a.pdf', customer => 'two') as task;
select configure_agent(agent_of(task), job_id => 7) from two;
create temporary table first as select claim(task) as attempt from two;
select record_runs(array[attempt], array[21::bigint]) from first;
select report(attempt, 'failure') from first;
select bill(usage('21', 2), usage('21', 0.5, currency => 'EUR'));
select results_eq($$select pg_temp.of_two('failed')$$, $$values ('EUR 1/1 0.5'), ('USD 1/1 2')$$, 'a failed task''s is billed');
select retry_task(task, actor => 'ops') from two;
select is_empty($$select pg_temp.of_two('failed')$$, 'when it is retried, no more');
select results_eq($$select pg_temp.of_two('enqueued')$$, $$values ('EUR 0/0 0.5'), ('USD 0/0 2')$$, 'but as what it is now, out of the coverage of finished ones');
create temporary table second as select claim(task) as attempt from two;
select results_eq($$select pg_temp.of_two('processing')$$, $$values ('EUR 0/0 0.5'), ('USD 0/0 2')$$, 'also while it runs again');
select is_empty($$select pg_temp.of_two('enqueued')$$, 'and nowhere else');
select report(attempt, 'success', '1') from second;
select results_eq($$select pg_temp.of_two('completed')$$, $$values ('EUR 1/1 0.5'), ('USD 1/1 2')$$, 'and once it is finished');
select fold_rollups();
select results_eq($$select pg_temp.of_two('completed')$$, $$values ('EUR 1/1 0.5'), ('USD 1/1 2')$$, 'folded too');
select record_runs(array[attempt], array[22::bigint]) from second;
select results_eq($$select pg_temp.of_two('completed')$$, $$values ('EUR 0/1 0.5'), ('USD 0/1 2')$$, 'a run that is told of late is not billed');
select bill(usage('22', 3));
select results_eq($$select pg_temp.of_two('completed')$$, $$values ('EUR 1/1 0.5'), ('USD 1/1 5')$$, 'until it is');
select is((select median_cost from cost_report(customers => '{two}', by => '{}') where kind = 'compute' and currency = 'USD'), 5.0, 'a task is what all its runs cost');
select bill(usage('21', null), usage('22', 3));
select results_eq($$select pg_temp.of_two('completed')$$, $$values ('USD 0/1 3')$$, 'a currency that billing took back is gone; an amount without a price is not covered');
select bill(usage('21', 2), usage('21', 0.5, currency => 'EUR'), usage('22', 3));

-- bounded
select results_eq($$select c.kind, c.currency, c.tasks, c.ran, c.priced, c.cost from cost_report(by => '{}', most_tasks => 2) c$$,
  $$select c.kind, c.currency, c.tasks, c.ran, c.priced, c.cost from cost_report(by => '{}') c$$, 'sums and coverage are of all');
select results_eq($$select c.kind, c.currency, c.median_cost, c.median_of from cost_report(by => '{}', most_tasks => 1) c$$,
  $$values ('llm', 'USD', null, 0::bigint), ('compute', 'EUR', 0.5, 1), ('compute', 'USD', 5.0, 1)$$, 'medians are of the newest');
select results_eq($$select c.currency, c.priced, c.median_of from cost_report(by => '{}') c where c.kind = 'compute'$$,
  $$values ('EUR', 2::bigint, 2::bigint), ('USD', 4, 4)$$, 'of all that are billed in full, if these are few');
select results_eq($$select c.priced, c.median_of from cost_report(by => '{}') c where c.kind = 'llm'$$, $$values (6::bigint, 6::bigint)$$, 'or priced');
select is((select array_agg(c.as_of) from cost_report(by => '{customer}', most_tasks => 1) c where c.customer = 'acme' and c.kind = 'compute'), '{null,null}',
  'when others were asked for is not known');

-- thousands cancelled at once take nobody's place in the sample
create temporary table before as select c.kind, c.currency, c.median_cost, c.median_of from cost_report(by => '{}', most_tasks => 6) c;
select isnt((select b.median_cost from before b where b.kind = 'llm'), null, '(there is a median)');
select cancel_tasks(array(select enqueue_task((select a.name from agents a order by a.id limit 1), '/never.pdf') from generate_series(1, 20)), 'ops', 'x');
select results_eq($$select c.kind, c.currency, c.median_cost, c.median_of from cost_report(by => '{}', most_tasks => 6) c$$, 'select b.* from before b',
  'medians are as before');

-- by all four: rollups as they are, but for the days of what is not folded yet
create function pg_temp.adds_up(words text) returns setof text language sql as $$
  select results_eq($q$select c.kind, c.currency, sum(c.priced)::bigint, sum(c.cost) from cost_report() c where c.currency is not null
    group by c.kind, c.currency order by c.kind desc, c.currency$q$, $q$select c.kind, c.currency, c.priced, c.cost from cost_report(by => '{}') c$q$, words)
  union all
  select is_empty($q$select from cost_report() c group by c.customer, c.agent, c.status, c.day, c.kind, c.currency having count(*) > 1$q$,
    words || ': each group has a row')
$$;
select fold_rollups();
create temporary table all_folded as select c.customer, c.agent, c.status, c.day, c.kind, c.currency, c.tasks, c.ran, c.priced, c.cost from cost_report() c;
select pg_temp.adds_up('all of it is folded');
create temporary table left_one as select t.id as task, t.agent_id from tasks t where t.status = 'failed' order by t.finished_at limit 1;
select retry_task(task, actor => 'ops') from left_one;
select pg_temp.adds_up('a task has left its day');
select results_eq($$select c.customer, c.agent, c.status, c.day, c.kind, c.currency, c.tasks, c.ran, c.priced, c.cost from cost_report() c
    where c.agent is distinct from (select a.name from left_one l join agents a on a.id = l.agent_id)$$,
  $$select f.* from all_folded f where f.agent is distinct from (select a.name from left_one l join agents a on a.id = l.agent_id)$$,
  'what has not changed is as it was, in the same order');
select fold_rollups();
select pg_temp.adds_up('folded again');
select bill(usage('21', 2), usage('21', 0.5, currency => 'EUR'), usage('22', 9));
select pg_temp.adds_up('only billing has told more');
select refused(format('select cost_report(%s)', a), 'LQ400', a || ' is refused')
from unnest(array['by => ''{month}''', 'most_tasks => 0', 'statuses => ''{gone}''']) a;
set session authorization test_reader;
select lives_ok('select lakequeue.cost_report()', 'a reader may look');
set session authorization test_owner;

select * from finish();
rollback;
