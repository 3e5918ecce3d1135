-- Included after scenarios.sql by the tests of what nudges: in this transaction _nudge writes down whom it would
-- nudge instead of sending, so that the nudges of each statement can be seen (repeats within a transaction are one
-- notification). What _nudge itself does is in
-- test__nudge.sql.
create table scenario.nudges (channel text);
grant select, insert, delete on scenario.nudges to public;

create or replace function lakequeue._nudge(channel text)
returns boolean
language sql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$ insert into scenario.nudges values (channel) returning true $$;

-- Whom the statement nudges: "changes, worker" if watchers and workers, "nobody" if neither.
create function scenario.nudged(statement text)
returns text
language plpgsql
as $$
begin
  delete from scenario.nudges;
  execute statement;
  return coalesce((select string_agg(distinct replace(u.channel, 'lakequeue_', ''), ', ') from scenario.nudges u), 'nobody');
end $$;
