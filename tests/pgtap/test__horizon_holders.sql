-- _horizon_holders: the caller himself holds nothing up. Real holders are in tests/race/test_health.py.
begin;
\ir scenarios.sql
select plan(2);

select is_empty($$select * from _horizon_holders() h where h.who like '%' || pg_backend_pid() || '%'$$, 'nobody names himself');
select is_empty($$select * from _horizon_holders() h where h.kind not in ('session', 'standby', 'prepared', 'slot')$$, 'the kinds that there are');

select * from finish();
rollback;
