-- guard_task_status: of the 25 pairs of statuses 16 are allowed (five of them staying as it is); the other 9 are
-- refused, even to a raw UPDATE by the owner or a superuser, and a refused one changes nothing.
begin;
\ir scenarios.sql
select plan(34);

-- Tries the pair on a task of its own, with all that the table's own constraints ask for.
create function pg_temp.go(was task_status, becomes task_status)
returns text language plpgsql
as $$
declare
  v_task bigint := new_task();
  v_hint text;
begin
  begin
    if was <> 'enqueued' then
      update tasks t set status = 'processing', locked_by = 'w', lease_expires_at = _now() where t.id = v_task;
    end if;
    if was not in ('enqueued', 'processing') then
      update tasks t set status = was, locked_by = null, lease_expires_at = null, finished_at = _now() where t.id = v_task;
    end if;
    if (select t.status from tasks t where t.id = v_task) <> was then
      return 'could not be prepared';
    end if;
    update tasks t
    set status = becomes,
        locked_by = case when becomes = 'processing' then 'w' end,
        lease_expires_at = case when becomes = 'processing' then _now() end,
        finished_at = case when becomes not in ('enqueued', 'processing') then _now() end
    where t.id = v_task;
    return case when (select t.status from tasks t where t.id = v_task) = becomes then 'allowed' else 'ignored' end;
  exception when sqlstate 'LQ409' then
    get stacked diagnostics v_hint = pg_exception_hint;
    return case when v_hint <> '' and sqlerrm like '%' || was || '%' || becomes || '%' then 'LQ409' else 'LQ409 without a word' end;
  end;
end $$;

create temporary table pairs (was task_status, becomes task_status, expected text);
insert into pairs
select f.was, t.becomes,
       case when f.was = t.becomes then 'allowed'
            when (f.was, t.becomes) in (
              ('enqueued', 'processing'), ('enqueued', 'completed'), ('enqueued', 'cancelled'),
              ('processing', 'enqueued'), ('processing', 'completed'), ('processing', 'failed'), ('processing', 'cancelled'),
              ('failed', 'enqueued'), ('failed', 'completed'), ('cancelled', 'enqueued'), ('cancelled', 'completed')) then 'allowed'
            else 'LQ409' end
from unnest(enum_range(null::task_status)) f(was) cross join unnest(enum_range(null::task_status)) t(becomes);
select results_eq('select expected, count(*) from pairs group by 1 order by 1', $$ values ('LQ409', 9::bigint), ('allowed', 16) $$, '25 pairs, 9 of them illegal');
select is(pg_temp.go(p.was, p.becomes), p.expected, format('%s → %s', p.was, p.becomes)) from pairs p;

-- One illegal row refuses the whole statement.
select task_of(attempt_in('confirmed')) as completed \gset
select new_task() as waiting \gset
select refused(format('update lakequeue.tasks set status = ''cancelled'', finished_at = now() where id in (%s, %s)', :waiting, :completed), 'LQ409',
               'one illegal change refuses the whole statement');
select task_is(:waiting, '{"status": "enqueued"}', 'also the legal one beside it');

-- A superuser too.
set session authorization postgres;
select refused(format('update lakequeue.tasks set status = ''failed'' where id = %s', :completed), 'LQ409', 'not even a superuser may');
set session authorization test_owner;
select task_is(:completed, '{"status": "completed"}', 'the task is as it was');

-- Anything else about a task may change.
select lives_ok(format('update tasks set priority = 9 where id = %s', :completed), 'other columns are not its business');
select ok(t.tgenabled = 'O' and not t.tgisinternal, 'the trigger is enabled') from pg_trigger t
where t.tgrelid = 'lakequeue.tasks'::regclass and t.tgname = 'guard_task_status';

-- Only retry_task leaves failed and cancelled: nobody but the owner has UPDATE.
select is_empty($$ select r.rolname from pg_roles r where r.rolname ~ '^(lakequeue|test)_(app|web|worker|agent|operator|reader|stranger)$'
                   and has_any_column_privilege(r.rolname, 'lakequeue.tasks', 'insert, update') $$, 'no role has UPDATE or INSERT on tasks');
select is(count(*), 13::bigint, 'of all the roles') from pg_roles r where r.rolname ~ '^(lakequeue|test)_(app|web|worker|agent|operator|reader|stranger)$';

select * from finish();
rollback;
