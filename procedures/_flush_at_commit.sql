-- Has the commit of this transaction wait until its WAL, and so all that was committed before it, is safe from a crash, also
-- what did not wait itself, and where synchronous_commit is off. A commit waits only if its transaction has written something
-- (an id alone is not enough): so this writes a message to the log that nobody reads.
create or replace function lakequeue._flush_at_commit()
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  perform pg_logical_emit_message(true, 'lakequeue', ''::text);
end $$;

comment on function lakequeue._flush_at_commit() is
  'Has the commit of this transaction wait until all that was committed before is safe from a crash.';
