-- The time by which reports are made: now, and the day it belongs to in the installation's one reporting time zone
-- (rule 15). A page that offers "today" or "the last seven days" asks here, not its own clock.
create or replace function lakequeue.reporting_time()
returns table (now timestamptz, time_zone text, today date)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
begin
  return query
    select v_now, i.time_zone, (v_now at time zone i.time_zone)::date
    from installation i;
end $$;

comment on function lakequeue.reporting_time() is 'Now, the reporting time zone, and today''s date in it.';
