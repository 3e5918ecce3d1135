-- Adds two arrays of amounts, kind by kind; what is unknown in one stays unknown.
begin;
select plan(7);
select is(_plus('{1,20,300,4000,50000}', '{5,6,7,8,9}'), '{6,26,307,4008,50009}', 'each to its own kind');
select is(_plus('{1,2,3,4,5}', '{0,0,0,0,0}'), '{1,2,3,4,5}', 'nothing changes nothing');
select is(_plus('{1,2,3,4,5}', '{-1,-1,-4,0.5,-5}'), '{0,1,-1,4.5,0}', 'less than nothing takes away');
select is(_plus('{1,null,3,null,5}', '{1,2,null,null,1}'), '{2,null,null,null,6}', 'what is unknown in either is unknown');
select is(_plus(null, '{1,2,3,4,5}'), '{null,null,null,null,null}', 'of a page that is void everything is');
select is(_plus('{1,2,3,4,5}', null), '{null,null,null,null,null}', 'on either side');
set session authorization test_worker;
select throws_ok($$select lakequeue._plus('{1}', '{1}')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
