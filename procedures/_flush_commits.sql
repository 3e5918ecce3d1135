-- Has the end of this transaction wait until all that was committed before is safe from a crash, also without having waited
-- for it. A commit waits, as synchronous_commit says, only if its transaction has written something: so this writes a message
-- to the log that nobody reads (a transaction's id alone is not enough).
create or replace function lakequeue._flush_commits()
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  perform pg_logical_emit_message(true, 'lakequeue', ''::text);
end $$;

comment on function lakequeue._flush_commits() is
  'Has the end of this transaction wait until all that was committed before is safe from a crash.';
