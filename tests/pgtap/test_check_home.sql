-- check_home: the first caller notes where the installation lives, everybody after it must find it there.
begin;
\ir scenarios.sql
select plan(17);

select is(i.home, null, 'where nothing has worked yet, nothing is noted: a template is nobody''s home') from installation i;
set session authorization test_worker;
select is(check_home('projects/p/branches/production/endpoints/primary'), lakequeue_home, 'the first worker notes where it is')
from (select format('server %s, database %s, projects/p/branches/production', (select s.system_identifier from pg_control_system() s),
                    (select d.oid from pg_database d where d.datname = current_database())) as lakequeue_home) h;
set session authorization test_owner;
select says_and_changes_nothing('select check_home(''projects/p/branches/production'') is not null', 'true', 'the next ones find it there');
set session authorization test_web;
select lives_ok($$select check_home('projects/p/branches/production/endpoints/primary')$$, 'the web process too');
set session authorization test_owner;

-- elsewhere
select refused('select check_home(''projects/p/branches/debug/endpoints/primary'')', 'LQ421', 'another branch');
select refused('select check_home()', 'LQ421', 'somebody who does not say where he is, where all others do');
select throws_matching('select check_home(''projects/p/branches/debug/endpoints/primary'')',
                       'lives at \(server \d+, database \d+, projects/p/branches/production\), this is \(.*/debug\)', 'it says where, and where not');
create function pg_temp.hint()
returns text language plpgsql
as $$
declare
  v_hint text;
begin
  perform lakequeue.check_home('projects/p/branches/debug');
exception when others then
  get stacked diagnostics v_hint = pg_exception_hint;
  return v_hint;
end $$;
select matches(pg_temp.hint(), 'lakequeue\.quiesce\(''why'', lakebase_endpoint => ''projects/p/branches/debug''\).*move_here', 'and what to call, complete');
update installation set home = replace(home, 'database ', 'database 1');
select refused('select check_home(''projects/p/branches/production'')', 'LQ421', 'another database of the server: a clone');
update installation set home = 'server 1, database 2, projects/p/branches/production';
select refused('select check_home(''projects/p/branches/production'')', 'LQ421', 'another server: a restored dump');
select refused('select check_home(''production'')', 'LQ400', 'no endpoint');
update installation set home = null;
select lives_ok('select check_home()', 'outside of Lakebase nothing needs to be said');

select not_for(login, 'select lakequeue.check_home()')
from unnest(array['test_app', 'test_agent', 'test_operator', 'test_reader', 'test_stranger']) login;

select * from finish();
rollback;
