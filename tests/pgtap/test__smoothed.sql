-- What one more look makes of a pace.
begin;
\ir scenarios.sql
select plan(9);

select is(_smoothed(null, 7), 7::real, 'the first look is believed');
select is(_smoothed(100, 200), 150::real, 'another counts for half');
select is(_smoothed(100, 0), 50::real, 'also one that says nothing was used');
select is(_smoothed(100, 105), 100::real, 'a twentieth more is no news');
select is(_smoothed(100, 95), 100::real, 'nor is a twentieth less');
select is(_smoothed(100, 106), 103::real, 'more than that is');
select is(_smoothed(0, 0), 0::real, 'nothing stays nothing');
select is(_smoothed(0, 10), 5::real, 'until there is something');
select is(_smoothed(0.0005, 0), 0::real, 'what fades away is nothing in the end: it would become too small for its type');

select * from finish();
rollback;
