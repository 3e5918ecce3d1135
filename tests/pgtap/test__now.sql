-- The clock as shipped: the real time, moving on within a transaction, so that what a function
-- reads after a lock wait is not as old as the wait.
-- pytest.mark.pristine
begin;
select plan(4);

select volatility_is('lakequeue', '_now', array[]::name[], 'volatile', 'it is read anew at every call');
select is(pg_get_function_sqlbody('lakequeue._now()'::regprocedure), 'RETURN clock_timestamp()', 'it is clock_timestamp() and nothing else');
select ok(
    abs(extract(epoch from lakequeue._now() - clock_timestamp())) < 1,
    'it is the server''s time'
);
select pg_sleep(0.01);
select ok(lakequeue._now() > now(), 'it moves on within a transaction');

select * from finish();
rollback;
