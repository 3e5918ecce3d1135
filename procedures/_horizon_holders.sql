-- Who keeps dead rows of this database from being removed, or may soon: open transactions with a snapshot or a transaction
-- id, prepared ones, standbys with hot_standby_feedback, the slots of such. In other databases: writers and prepared
-- transactions, which every snapshot here has to mind. A logical slot keeps rows of the system catalogs alone.
--
-- Returns kind: session, standby, prepared or slot; who, in words; ends_by: what ends it; since: null for a slot, and where it
-- is not known; transactions: how many have begun since; here: whether it holds the horizon of this database.
-- When a transaction of another login began is told to members of pg_read_all_stats only. Its id is told to everybody, so
-- otherwise since is the time of the oldest row of queue_samples (one in 5 minutes) that was written with a later id: it is
-- at least as old as that. One younger than them all counts as begun just now while such rows are written.
create or replace function lakequeue._horizon_holders()
returns table (kind text, who text, ends_by text, since timestamptz, transactions bigint, here boolean)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
begin
  return query
    with samples as materialized (  -- at is the beginning of the 5 minutes in which the row was written
      select q.at + interval '5 minutes' as by, age(q.xmin)::bigint as transactions
      from queue_samples q
      where q.at > v_now - interval '6 hours'
      order by q.at desc
      limit 5000
    ), sessions as (
      select case when a.datname is null then 'standby' else 'session' end as kind,
             format('process %s, %s in %s%s', a.pid, a.usename, coalesce('database ' || a.datname, 'replication'),
                    ' (' || nullif(a.application_name, '') || ')') as who,
             case when a.datname is null then format('hot_standby_feedback off on the standby %s', a.application_name)
                  else format('select pg_terminate_backend(%s)', a.pid) end as ends_by,
             a.xact_start, greatest(age(a.backend_xid), age(a.backend_xmin))::bigint as transactions,
             coalesce(a.datname = current_database(), true) as here
      from pg_stat_activity a
      where a.pid <> pg_backend_pid() and a.usesysid is not null  -- without: the server's own
        and (a.backend_xid is not null
             or (a.backend_xmin is not null and coalesce(a.datname = current_database(), true)))
        and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid)
    )
    select s.kind, s.who, s.ends_by,
           coalesce(s.xact_start, (select min(m.by) from samples m where m.transactions <= s.transactions),
                    case when exists (select from samples m where m.by > v_now - interval '15 minutes') then v_now end),
           s.transactions, s.here
    from sessions s
    union all
    select 'prepared', format('prepared transaction %s, %s in database %s', p.gid, p.owner, p.database),
           format('commit prepared %L or rollback prepared %L', p.gid, p.gid), p.prepared, age(p.transaction)::bigint,
           p.database = current_database()
    from pg_prepared_xacts p
    union all
    select 'slot', format('replication slot %s (%s)', r.slot_name, case when r.active then 'active' else 'nobody reads it' end),
           format('select pg_drop_replication_slot(%L)', r.slot_name), null,
           age(r.xmin)::bigint, true
    from pg_replication_slots r
    where r.xmin is not null;
end $$;

comment on function lakequeue._horizon_holders() is 'Who keeps dead rows of this database from being removed, or may soon.';
