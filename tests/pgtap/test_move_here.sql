-- move_here: production itself is here now, and everything goes on.
begin;
\ir scenarios.sql
select plan(19);

select start() as a \gset
select token(:a) as token \gset
update installation set home = 'server 1, database 2';
select refused('select check_home()', 'LQ421', '(a restored dump)');
set session authorization test_operator;
select is(move_here('the old server burnt down'), 'moved', 'an operator says that it is no copy');
set session authorization test_owner;
select lives_ok('select check_home()', 'workers go on');
select row_is(to_jsonb(e), jsonb_build_object('actor', 'test_operator', 'reason', 'the old server burnt down',
              'detail', jsonb_build_object('from', 'server 1, database 2', 'to', _here(null))), 'who, why, from where and where to')
from (select null) one left join task_events e on e.kind = 'moved';
select says_and_changes_nothing('select move_here(''again'')', 'is here already', 'once');
select is(states(:a), 'processing running', 'what ran runs on');
select is(token(:a), :'token', 'with the token it has');
select is(record_callback(:a, :'token', 'success', '{"total": 1}'), 'accepted', 'and is believed');

-- a new branch of Lakebase
select is(move_here('restored to noon', lakebase_endpoint => 'projects/p/branches/noon/endpoints/primary'), 'moved', 'another branch');
select is(check_home('projects/p/branches/noon'), _here('projects/p/branches/noon'), 'its workers are at home');
update installation set home = null;
select is(move_here('before any worker'), 'moved', 'before anything was noted');

select refused(format('select move_here(%s)', reason), 'LQ400', 'reason ' || reason) from unnest(array['null', '''''', ''' ''']) reason;
select not_for(login, 'select lakequeue.move_here(''why'')')
from unnest(array['test_app', 'test_web', 'test_worker', 'test_agent', 'test_stranger']) login;

select * from finish();
rollback;
