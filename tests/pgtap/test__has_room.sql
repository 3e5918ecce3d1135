-- Whether a limit has room for one more task (rules 3, 4 and 4c), and that what is not known has none.
begin;
select plan(26);
select is(_has_room(1, false, 3, 2, 2, 1), true, 'tasks: while fewer than the limit run');
select is(_has_room(1, false, 3, 3, 3, 1), false, 'then no more');
select is(_has_room(1, false, 3, 4, 4, 1), false, 'nor where a lowered limit is exceeded');
select is(_has_room(1, false, 3, 2, 9, 1), true, 'nothing but those that run counts');
select is(_has_room(1, true, 3, 2, 9, 1), true, 'whether they reserve their calls or not');
select is(_has_room(1, true, 3, 3, 0, 1), false, '(neither beyond the limit)');

select is(_has_room(2, false, 1000, 900, 0, 100), true, 'per minute, what fits exactly fits');
select is(_has_room(2, false, 1000, 900, 0, 101), false, 'one too many does not');
select is(_has_room(2, false, 1000, 0, 900, 100), true, 'what is booked counts like what is used');
select is(_has_room(2, false, 1000, 0, 901, 100), false, 'to the last one');
select is(_has_room(2, false, 1000, 500, 901, 100), false, 'the larger of both');
select is(_has_room(2, false, 1000, 0, 0, 5000), true, 'larger than the limit: if nothing else is spent');
select is(_has_room(2, false, 1000, 1, 0, 5000), false, 'and only then');
select is(_has_room(2, false, 1000, 0, 1, 5000), false, 'nor beside what is booked');
select is(array(select _has_room(k, false, 1000, 999, 999, 1) and not _has_room(k, false, 1000, 999, 999, 2) from generate_series(2, 5) k),
  array[true, true, true, true], 'of every kind but tasks alike');

select is(_has_room(2, true, 1000, 0, 999, 500), true, 'an agent that reserves its calls: while less than the limit is booked');
select is(_has_room(2, true, 1000, 0, 1000, 1), false, 'not when all of it is');
select is(_has_room(2, true, 1000, 1000, 0, 500), true, 'whatever the window holds just now: its calls will wait');
select is(_has_room(2, true, 1000, 0, 0, 5000), true, 'also a task larger than the limit');

select is(array(select _has_room(k, r, null, 1000, 1000, 1) from generate_series(1, 5) k, (values (true), (false)) r(r) order by k, r),
  array_fill(true, array[10]), 'where there is no limit there is room');
select is(_has_room(2, false, null, null, null, 1), true, 'whatever is known');
select is(_has_room(1, false, 3, null, 0, 1), false, 'tasks that the books do not know must be counted');
select is(_has_room(2, false, 1000, null, null, 1), false, 'so must what is used and booked');
select is(_has_room(2, true, 1000, 0, null, 1), false, 'for an agent that reserves its calls, what is booked');
select is(_has_room(2, true, 1000, null, 0, 1), true, 'and that alone');
set session authorization test_worker;
select throws_ok('select lakequeue._has_room(1, true, 1, 0, 0, 1)', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
