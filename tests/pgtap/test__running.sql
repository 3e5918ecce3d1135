-- What runs at endpoints: attempts whose run is not known to have ended, from the place on that the newest book says.
begin;
\ir scenarios.sql
select plan(8);
select without_upkeep();

select start() as one, start() as two, start() as three \gset
select endpoint_id as e1 from task_attempts where id = :one \gset
select endpoint_id as e2 from task_attempts where id = :two \gset
create function pg_temp.runs(endpoints integer[]) returns bigint[] language sql as $$
  select array_agg(r.id order by r.id) from lakequeue._running(endpoints) r
$$;
select is(pg_temp.runs(array[:e1, :e2]), array[:one, :two]::bigint[], 'of these endpoints');
select is(pg_temp.runs(array[:e1, :e1, null]), array[:one]::bigint[], 'each once; null is none');
select is(pg_temp.runs('{}'), null, 'no endpoints, none');
insert into running_books values (:e1, 1, 0), (:e1, 2, (select place from task_attempts where id = :one));
select is(pg_temp.runs(array[:e1]), array[:one]::bigint[], 'from its place on');
insert into running_books values (:e1, 3, (select place + 1 from task_attempts where id = :one));
select is(pg_temp.runs(array[:e1, :e2]), array[:two]::bigint[], 'not before; other endpoints have books of their own');
select report(:two, 'failure');
select is(pg_temp.runs(array[:e2]), null, 'one that has ended does not run');
select results_eq(format('select id, endpoint_id, reserves_calls, estimated_tokens, input_tokens, output_tokens from _running(array[%s])',
                         (select endpoint_id from task_attempts where id = :three)),
  format('select id, endpoint_id, reserves_calls, estimated_tokens, input_tokens, output_tokens from task_attempts where id = %s', :three),
  'with what is counted of it');

set session authorization test_worker;
select throws_ok('select * from lakequeue._running(array[1])', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
