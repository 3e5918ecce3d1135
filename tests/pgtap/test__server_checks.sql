-- _server_checks: limits and words. Open transactions are said by a stand-in for _horizon_holders; the real ones, dead rows
-- and the queue of NOTIFY are in tests/race/test_health.py.
begin;
\ir scenarios.sql
select plan(19);

create temporary table held (kind text, who text, ends_by text, since timestamptz, transactions bigint, here boolean);
grant select on held to public;
create or replace function _horizon_holders()
returns table (kind text, who text, ends_by text, since timestamptz, transactions bigint, here boolean)
language sql set search_path = pg_catalog, pg_temp as 'select * from pg_temp.held';

create function pg_temp.is_told(name text, status text, value numeric, expected text, description text) returns text language sql as $$
  select tap.ok(
    h.status = is_told.status and h.value is not distinct from is_told.value
      and case when is_told.status = 'ok' then h.words is null else h.words ~ expected end,
    format('%s: %s (%s)', is_told.name, description, (h.status, h.value, h.words)))
  from lakequeue.health() h where h.name = is_told.name $$;

select pg_temp.is_told('long_transaction', 'ok', 0, '', 'nobody is there');
select pg_temp.is_told('horizon', 'ok', 0, '', 'nobody is there');
insert into held values ('session', 'process 7', 'select pg_terminate_backend(7)', _now() - interval '299 s', 99999, true),
                        ('session', 'process 8', 'select pg_terminate_backend(8)', _now() - interval '1 s', 5000000, false),
                        ('slot', 'replication slot s', 'select pg_drop_replication_slot(''s'')', null, 50, true);
select pg_temp.is_told('long_transaction', 'ok', 299, '', 'short of five minutes; a slot is no transaction');
select pg_temp.is_told('horizon', 'ok', 99999, '', 'what is in another database does not count');
update held set since = _now() - interval '5 min', transactions = 100000 where who = 'process 7';
select pg_temp.is_told('long_transaction', 'warning', 300, 'process 7 .*select pg_terminate_backend\(7\)', 'five minutes');
select pg_temp.is_told('horizon', 'warning', 100000, 'process 7 .*100000.*select pg_terminate_backend\(7\)', 'a hundred thousand transactions');
update held set since = _now() - interval '1 hour', transactions = 1000000 where who = 'process 7';
select pg_temp.is_told('long_transaction', 'alarm', 3600, 'process 7', 'an hour');
select pg_temp.is_told('horizon', 'alarm', 1000000, 'process 7', 'a million');
update held set transactions = 2000000 where kind = 'slot';
select pg_temp.is_told('horizon', 'alarm', 2000000, 'slot s .*pg_drop_replication_slot\(''s''\)', 'a slot that nobody reads');
update held set since = case when who = 'process 7' then null else since end;
select pg_temp.is_told('long_transaction', 'unknown', null, 'process 7 .*pg_read_all_stats', 'one that nobody can date is not well');
update held set since = _now() - interval '6 min' where who = 'process 8';
select pg_temp.is_told('long_transaction', 'warning', 360, 'process 8', 'unless another one is known to be worse');

select pg_temp.is_told('notify_queue', 'ok', 0, '', 'nobody is behind');
select pg_temp.is_told('dead_rows', 'ok', h.value, '', 'few are dead') from health() h where h.name = 'dead_rows';
select is(h.alarms_at - 5 * h.warns_at, 50000::numeric, 'limits grow with the table') from health() h where h.name = 'dead_rows';

-- what only a superuser can set
set session authorization default;
select current_database() as database \gset
alter database :"database" connection limit 100000;
select is(h.status, 'ok', 'connections enough') from lakequeue.health() h where h.name = 'connections';
alter database :"database" connection limit 1;
select matches(h.words, 'of \d+ connections of the server are taken, \d+ in this database', 'no place is left in this database')
from lakequeue.health() h where h.name = 'connections' and h.status = 'alarm';
update pg_class set relfrozenxid = (mod(txid_current() + 4294967296 - 400000001, 4294967296))::text::xid
where oid = 'lakequeue.tasks'::regclass;
select is(h.status, 'warning', 'a table of ours is not frozen') from lakequeue.health() h where h.name = 'xid_age';
update pg_class set relfrozenxid = (mod(txid_current() + 4294967296 - 1200000001, 4294967296))::text::xid
where oid = 'lakequeue.tasks'::regclass;
select matches(h.words, 'vacuum \(freeze', 'nor is it soon') from lakequeue.health() h where h.name = 'xid_age' and h.status = 'alarm';
update pg_class set relfrozenxid = (txid_current() - 1)::text::xid where oid = 'lakequeue.tasks'::regclass;
update pg_database set datfrozenxid = (mod(txid_current() + 4294967296 - 400000001, 4294967296))::text::xid
where datname = current_database();
select is(h.status, 'warning', 'or any other of this database') from lakequeue.health() h where h.name = 'xid_age';

select * from finish();
rollback;
