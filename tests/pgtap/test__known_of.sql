-- What a report of an attempt is decided by: its row, two numbers of its agent, what the breaker counts, whether a result is there.
begin;
\ir scenarios.sql
select plan(8);

select start() as a, start() as other \gset
select a.agent_id as agent from task_attempts a where a.id = :a \gset
update agents set output_share = 0.25, reconcile_grace = '7 min' where id = :agent;
select results_eq(format('select (k.attempt).* from _known_of(%s) k', :a), format('select * from task_attempts where id = %s', :a), 'its whole row');
prepare known as select k.output_share, k.reconcile_grace, k.failures_in_a_row, k.stored from _known_of($1) k;
select results_eq(format('execute known(%s)', :a), $$values (0.25::real, interval '7 min', null::integer, false)$$, 'its agent''s numbers; nothing was counted yet');
delete from breaker_books where agent_id = :agent;
insert into breaker_books (agent_id, no, failures) values (:agent, 1, 9), (:agent, 2, 4);
select results_eq(format('execute known(%s)', :a), $$values (0.25::real, interval '7 min', 4, false)$$, 'the newest page of the breaker''s book');
select store(:a) \gset
select is((select k.stored from _known_of(:a) k), true, 'a result is there');
select is((select k.stored from _known_of(:other) k), false, 'of another attempt none is');
select is((select count(*) from _known_of(-1)), 0::bigint, 'nothing of no attempt');
select is((select count(*) from _known_of(null)), 0::bigint, 'nor of null');

set session authorization test_agent;
select throws_ok('select lakequeue._known_of(1)', '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
