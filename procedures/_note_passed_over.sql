-- Notes since when tasks that fit no limit have been passed over by later ones (rule 5), and when these will be overdue.
--
-- endpoints: ids of those at which the later ones were admitted. tasks: ids of what was passed over, maybe not the first time.
-- Locks: the caller holds the endpoints' throttle locks exclusively; the tasks passed over for the first time, locked ones are
-- skipped.
create or replace function lakequeue._note_passed_over(endpoints integer[], tasks bigint[])
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_now timestamptz := _now();
  v_first_time bigint[] := array(
    select t.id
    from tasks t
    where t.passed_over_at is null and t.id = any(_note_passed_over.tasks)
    order by t.id
    for no key update skip locked);
begin
  if v_first_time <> '{}' then
    update tasks t set passed_over_at = v_now where t.id = any(v_first_time);
    update model_endpoints e set overdue_at = v_now + e.max_passed_over where e.id = any(endpoints) and e.overdue_at is null;
  end if;
end $$;

comment on function lakequeue._note_passed_over(integer[], bigint[]) is
  'Notes since when tasks that fit no limit have been passed over.';
