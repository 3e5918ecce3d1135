-- What an action did to one task, in words; an error where there is no such task.
begin;
\ir scenarios.sql
select plan(6);

select is(_one_task(7, 'cancelled', null), 'cancelled', 'an outcome');
select is(_one_task(7, 'skipped', 'it is completed'), 'skipped: it is completed', 'with what there is to say');
select refused('select _one_task(7, ''skipped'', ''there is no such task'')', 'LQ404', 'no such task');
select refused('select _one_task(null, ''skipped'', ''there is no such task'')', 'LQ404', 'null is none');
select is(_one_task(7, 'failed', 'there is no such task'), 'failed: there is no such task', 'only when it was skipped for that');
select not_for('test_operator', 'select lakequeue._one_task(1, null, null)');

select * from finish();
rollback;
