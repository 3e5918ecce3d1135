-- The run of an attempt has ended, so have its model calls: those under way count from now with what was reserved, those
-- that wait are gone. Called wherever run_ended_at is set.
create or replace function lakequeue._close_calls(attempts bigint[])
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  delete from model_calls c where c.attempt_id = any(attempts) and c.granted_at is null;
  update model_calls c set ended_at = _now() where c.attempt_id = any(attempts) and c.ended_at is null;
end $$;

comment on function lakequeue._close_calls(bigint[]) is 'Ends the model calls of attempts whose runs have ended.';
