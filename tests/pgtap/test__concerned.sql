-- The statuses that an action can concern are those of which its function skips no task.
begin;
\ir scenarios.sql
select plan(9);

create temporary table tries as
select s.situation, task_of(attempt_in(s.situation)) as task
from unnest(array['reported failure', 'confirmed', 'reported permanent failure', 'expired, cancelled in the queue', 'running']) s(situation);
create function pg_temp.done(action text) returns setof text language plpgsql as $$
declare
  v_task record;
begin
  for v_task in select t.status::text, t.id from lakequeue.tasks t join pg_temp.tries r on r.task = t.id loop
    begin
      return query execute format('select %L::text from lakequeue.%s(array[%s]%s, actor => ''ops'') o where o.outcome <> ''skipped''', v_task.status,
        case action when 'priority' then 'set_priorities' else action || '_tasks' end,
        v_task.id, case action when 'priority' then ', 1' else '' end);
      raise exception 'undone' using errcode = 'LQ999';
    exception when sqlstate 'LQ999' then null;
    end;
  end loop;
end $$;
select is((select count(distinct t.status) from tasks t join tries r on r.task = t.id), 5::bigint, '(a task of every status)');
select set_eq(format('select pg_temp.done(%L)', action), format('select unnest(_concerned(%L))::text', action), action)
from unnest(array['cancel', 'retry', 'reprocess', 'priority']) action;
select refused(format('select _concerned(%L)', action), 'LQ400', coalesce(action, 'null') || ' is none') from unnest(array[null, '', 'delete']) action;
select not_for('test_operator', 'select lakequeue._concerned(''cancel'')');

select * from finish();
rollback;
