-- From which time on retries wait: whatever sweeps have noted.
begin;
\ir scenarios.sql
select plan(6);

select is(_retries_from(), '-infinity', 'at first from any');
select sweep_leases();
select is(_retries_from(), _now() - interval '10 seconds', 'then ten seconds before the sweep');
insert into sweep_books select no + 1, retries_from + interval '1 hour', calls_from, looked_at from sweep_books;
select is(_retries_from(), _now() + interval '59 minutes 50 seconds', 'the newest book counts');
delete from sweep_books;
select is(_retries_from(), '-infinity', 'no book: any');
select sweep_leases();
select is(_retries_from(), _now() - interval '10 seconds', 'it is made again');

set session authorization test_worker;
select throws_ok('select lakequeue._retries_from()', '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
