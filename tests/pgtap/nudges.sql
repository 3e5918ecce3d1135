-- Included after scenarios.sql by the tests of what nudges: in this transaction _nudge writes down whom it would
-- nudge instead of sending, so that the nudges of each statement can be counted. What _nudge itself does is in
-- test__nudge.sql.
create table scenario.nudges (channel text);
grant select, insert, delete on scenario.nudges to public;

create or replace function lakequeue._nudge(channel text)
returns void
language sql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$ insert into scenario.nudges values (channel) $$;

-- Whom the statement nudges: "2 changes, 1 worker" if it nudged the watchers twice and the workers once.
create function scenario.nudged(statement text)
returns text
language plpgsql
as $$
begin
  delete from scenario.nudges;
  execute statement;
  return coalesce((select string_agg(format('%s %s', n.times, n.who), ', ' order by n.who)
                   from (select replace(u.channel, 'lakequeue_', '') as who, count(*) as times from scenario.nudges u group by u.channel) n), 'nobody');
end $$;
