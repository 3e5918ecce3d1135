-- _here: what differs between an installation and a copy of it, and nothing that does not.
begin;
\ir scenarios.sql
select plan(15);

select is(_here(null), format('server %s, database %s', (select s.system_identifier from pg_control_system() s),
                              (select d.oid from pg_database d where d.datname = current_database())),
          'the server and the database in it, for a plain login too');
select is(_here(''), _here(null), 'a blank endpoint is none');
select is(_here(' '), _here(null), 'also of blanks');
select is(_here('projects/p/branches/production/endpoints/primary'), _here(null) || ', projects/p/branches/production', 'in Lakebase its branch');
select is(_here(endpoint), _here('projects/p/branches/production/endpoints/primary'), 'by whichever endpoint: ' || endpoint)
from unnest(array['projects/p/branches/production', 'projects/p/branches/production/endpoints/read-only']) endpoint;
select isnt(_here('projects/p/branches/debug/endpoints/primary'), _here('projects/p/branches/production/endpoints/primary'), 'another branch is elsewhere');
select isnt(_here('projects/q/branches/production'), _here('projects/p/branches/production'), 'so is another project');
select refused(format('select _here(%L)', endpoint), 'LQ400', 'no endpoint: ' || endpoint)
from unnest(array['primary', 'projects/p', 'projects/p/branches/', 'a/projects/p/branches/b', 'projects//branches/b']) endpoint;

set local neon.timeline_id = 'a1b2';
select matches(_here(null), '^server \d+, database \d+, timeline a1b2$', 'and, where the server tells it, the timeline, which a branch does not share');
set local neon.timeline_id = '';

reset session authorization;
revoke execute on function pg_control_system() from public;
set session authorization test_owner;
select matches(_here(null), '^database \d+$', 'a login that may not read the server''s identifier does without');

select * from finish();
rollback;
