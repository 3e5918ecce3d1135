-- Who else writes a table now: whoever may have something there that nobody else sees yet. A writer has a lock on it from
-- before its statement does anything until its transaction ends. They are looked up in this database's locks, since a
-- snapshot would have an idle writer in any other database stall whoever waits for them. The caller sees what it has written.
--
-- So who must know that something is seen by all once whoever may not have known of it has ended, notes the writers and looks
-- again later. A transaction that was prepared keeps its name until the server is started anew, and has another one from then
-- on, which begins with -1/: whoever has such a name may be any of those that were noted.
--
-- relation: the table. noted: writers, as an earlier call named them.
-- Returns one row. names: the writers, by their virtual transaction ids. some_left: whether one of the noted may be among
--   them; null where none are given and nobody has such a name.
create or replace function lakequeue._writers(relation regclass, noted text[])
returns table (names text[], some_left boolean)
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  names := array(
    select l.virtualtransaction
    from pg_locks l
    where l.locktype = 'relation' and l.relation = _writers.relation and l.mode = 'RowExclusiveLock' and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and l.pid is distinct from pg_backend_pid());
  some_left := noted && names or exists (select from unnest(names) w(name) where starts_with(w.name, '-1/'));
  return next;
end $$;

comment on function lakequeue._writers(regclass, text[]) is 'Who else writes a table now.';
