-- An application sees the extractions that it opened itself; another one's is unknown to it, whatever it asks.
begin;
\ir scenarios.sql
select plan(24);

set session authorization default;
create role other_app login in role lakequeue_app;
create role rotated_app login in role test_app;
set session authorization test_owner;
select configure_agent('_ex parser');
set session authorization test_app;
select lakequeue.create_extraction('mine', 'acme', 'ann') as mine \gset
select count(*) as count from lakequeue.enqueue_tasks('_ex parser', '[{"document_path": "/1", "dedup_key": "k"}]', extraction => :mine) \gset
set session authorization test_owner;
select is((_extraction(:mine)).name, 'mine', 'the owner finds it');
select is(e.login, 'test_app', 'the login is noted beside the label') from extractions e where e.id = :mine;

create table scenario.ask as
select format(c.call, :mine) as call, format(c.call, -1) as unknown
from unnest(array['select * from lakequeue.extraction_progress(%s)', 'select * from lakequeue.extraction_results(%s)',
                  'select * from lakequeue.enqueue_tasks(''_ex parser'', ''[]'', extraction => %s)',
                  'select lakequeue.enqueue_task(''_ex parser'', ''/x'', extraction => %s)']) c(call);
create function scenario.said(statement text) returns text language plpgsql
as $$ begin execute statement; return 'done'; exception when others then return format('%s %s', sqlstate, sqlerrm); end $$;
grant select on scenario.ask to public;

set session authorization test_app;
select is(said(a.call), 'done', 'its application may: ' || a.call) from ask a;
set session authorization rotated_app;
select is(said(a.call), 'done', 'a login that inherits the one that opened it may: ' || a.call) from ask a;
set session authorization other_app;
select is(said(a.call), format('LQ404 there is no extraction %s', substring(a.call from '(\d+)\)$')),
          'another is told what it would be told of none: ' || a.call) from ask a;
select is(substring(said(a.unknown) from '^LQ404 there is no extraction'), 'LQ404 there is no extraction', 'namely this') from ask a;
set session authorization test_owner;

select lives_ok(format('set session authorization %s; select lakequeue.extraction_results(%s); set session authorization test_owner', login, :mine),
                login || ' sees everybody''s') from unnest(array['test_web', 'test_reader', 'test_operator', 'test_owner']) login;

-- A key leads to the task, not to the other's extraction; the login may be gone.
set session authorization other_app;
select lakequeue.create_extraction('theirs', 'acme') as theirs \gset
select is(created, false, 'who has the same document finds its task') from lakequeue.enqueue_tasks('_ex parser', '[{"document_path": "/1", "dedup_key": "k"}]', extraction => :theirs);
set session authorization test_owner;
update extractions set login = 'gone' where id = :mine;
set session authorization test_app;
select throws_ok(format('select lakequeue.extraction_progress(%s)', :mine), 'LQ404', null, 'what a login opened that is no more is no application''s');
set session authorization test_owner;

select * from finish();
rollback;
