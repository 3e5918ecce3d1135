-- Refuses a transaction that has one snapshot for all it does (REPEATABLE READ, SERIALIZABLE). Who has waited for a lock there
-- sees what there was before the wait, so whatever decides by what others have done asks first of all:
--
--   if current_setting('transaction_isolation') <> 'read committed' then
--     perform _refuse_snapshot('its name');
--   end if;
--
-- Where a row itself was changed Postgres says so (40001). Nothing warns where others have only locked it, and changed what
-- belongs to it: the usage of an earlier attempt, a bill, a page of the throttle's books. Neither does SERIALIZABLE, since
-- they are READ COMMITTED.
--
-- caller: the function that was called, for the message. Errors: LQ428, always.
create or replace function lakequeue._refuse_snapshot(caller text)
returns void
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  raise exception using errcode = 'LQ428',
    message = format('%s cannot run in a %s transaction', caller, current_setting('transaction_isolation')),
    hint = 'Call it under READ COMMITTED: set default_transaction_isolation, which autocommit follows, too, or begin isolation level '
           'read committed. What others have done is looked up after it has waited for them.';
end $$;

comment on function lakequeue._refuse_snapshot(text) is 'Refuses a transaction that has one snapshot for all it does.';
