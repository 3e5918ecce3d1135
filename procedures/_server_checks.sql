-- The checks of health that are about the server: columns as there. Everything is read from what any login may see. What they
-- say, and why these limits:
--
-- long_transaction: the oldest transaction, of this database or writing in another one; with it dead rows pile up, and what
--   passes them is slowed down within minutes (10,000 made a claim 8 times slower, 100,000 made it 95 times slower, before
--   rule 16 kept claims away from them).
-- horizon: how many transactions ago the oldest one began that keeps dead rows here; so many leave about as many dead rows.
-- dead_rows: of the worst table of ours, 10,000 and 100,000 (see above) beside a tenth and a half of its live ones.
-- xid_age: transactions since the oldest row that is not frozen; autovacuum should act at autovacuum_freeze_max_age (limits:
--   2 and 6 times that), by itself at 1,600,000,000, and at 2,144,483,647 the server stops.
-- notify_queue: how full the queue of NOTIFY is; at 1 no transaction that notifies can commit.
-- connections: taken ones, of those that plain logins may have, or of this database's own limit.
create or replace function lakequeue._server_checks()
returns table (name text, value numeric, unit text, warns_at numeric, alarms_at numeric, words text)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
begin
  return query
    with holders as materialized (
      select h.* from _horizon_holders() h
    ), dead as (
      select t.name, t.dead, 10000 + 0.1 * t.live as warns_at, 100000 + 0.5 * t.live as alarms_at
      from (select c.relname as name, pg_stat_get_dead_tuples(c.oid) as dead, pg_stat_get_live_tuples(c.oid) as live
            from pg_class c
            where c.relnamespace = 'lakequeue'::regnamespace and c.relkind = 'r') t
      order by t.dead / (10000 + 0.1 * t.live) desc, t.name
      limit 1
    )
    (select 'long_transaction',
            case when h.who is null or h.since is not null then coalesce(greatest(extract(epoch from v_now - h.since), 0), 0) end,
            'seconds', 300, 3600,
            case when h.since is null
                 then format('since when %s has been open is not told: grant pg_read_all_stats to lakequeue_owner, or let a '
                             'worker run', h.who)
                 else format('%s has been open since %s and keeps dead rows; if it is not a backup: %s', h.who, h.since, h.ends_by)
            end
     from (values (1)) one(row)
     -- one that nobody can date is worse than a short one
     left join (select o.* from holders o where o.kind <> 'slot') h on true
     order by case when h.since is null then interval '299 seconds' else v_now - h.since end desc, h.who
     limit 1)
    union all
    (select 'horizon', coalesce(h.transactions, 0), 'transactions', 100000, 1000000,
            format('%s keeps what %s transactions have left behind, so pages get slower; end it: %s', h.who, h.transactions,
                   h.ends_by)
     from (values (1)) one(row)
     left join (select o.* from holders o where o.here) h on true
     order by h.transactions desc nulls last, h.who
     limit 1)
    union all
    select 'dead_rows', d.dead, 'rows', d.warns_at, d.alarms_at,
           format('%s has %s dead rows; is long_transaction or horizon told? End that first, then: vacuum lakequeue.%I', d.name,
                  d.dead, d.name)
    from dead d
    union all
    select 'xid_age', greatest(age(d.datfrozenxid), r.age), 'transactions', least(2 * s.most, 1200000000), least(6 * s.most, 1600000000),
           format('autovacuum does not freeze (at %s transactions the server stops writes); end what holds the horizon, then, '
                  'as a superuser: vacuum (freeze, verbose) in database %s', 2144483647, d.datname)
    from pg_database d
    cross join (select current_setting('autovacuum_freeze_max_age')::numeric as most) s
    cross join lateral (
      select max(age(c.relfrozenxid)) as age from pg_class c
      where c.relnamespace = 'lakequeue'::regnamespace and c.relkind = 'r') r
    where d.datname = current_database()
    union all
    select 'notify_queue', pg_notification_queue_usage()::numeric, 'ratio', 0.1, 0.5,
           'a session listens inside an open transaction; when the queue is full no status can change. Who it is stands in the '
           'server''s log, or: select * from pg_stat_activity where state like ''idle in%'' order by xact_start'
    union all
    select 'connections', round(greatest(c.all_of_them / c.places, c.here / nullif(c.allowed_here, 0)), 3), 'ratio', 0.8, 0.95,
           format('%s of %s connections of the server are taken, %s in this database: select application_name, count(*) from '
                  'pg_stat_activity group by 1 order by 2 desc', c.all_of_them, c.places, c.here)
    from (
      select sum(s.numbackends) as all_of_them, sum(s.numbackends) filter (where s.datname = current_database()) as here,
             current_setting('max_connections')::numeric - current_setting('superuser_reserved_connections')::numeric
               - coalesce(current_setting('reserved_connections', true)::numeric, 0) as places,
             (select greatest(d.datconnlimit, 0)::numeric from pg_database d where d.datname = current_database()) as allowed_here
      from pg_stat_database s) c;
end $$;

comment on function lakequeue._server_checks() is 'The checks of health that are about the server.';
