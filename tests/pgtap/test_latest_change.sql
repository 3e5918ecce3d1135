-- latest_change: the mark differs after every change of status or usage and every event, and after nothing else.
begin;
\ir scenarios.sql
select plan(13);

select latest_change() as before \gset
select is(latest_change(), :'before', 'the same mark while nothing happens');

select new_task() as task \gset
select isnt(latest_change(), :'before', 'a new task');
select latest_change() as enqueued \gset
select claim(:task) as attempt \gset
select isnt(latest_change(), :'enqueued', 'a claim');
select latest_change() as claimed \gset
select extend_leases(array[:attempt], array[token(:attempt)]);
select is(latest_change(), :'claimed', 'a heartbeat changes nothing that people look at');
select report(:attempt, 'success', '1', input_tokens => 10, output_tokens => 1);
select isnt(latest_change(), :'claimed', 'a result');
select latest_change() as completed \gset
select record_usage(:attempt, 20, 2);
select isnt(latest_change(), :'completed', 'usage that a trace has settled');

select latest_change() as settled \gset
select fold_rollups(100000);
select latest_change() as folded \gset
select is(latest_change(), :'folded', 'the same mark when everything is folded');
select new_task() as another \gset
select isnt(latest_change(), :'folded', 'a change when nothing waited to be folded');

select latest_change() as quiet \gset
select pause_agent(agent_of(:another), 'lunch');
select isnt(latest_change(), :'quiet', 'a pause');
select latest_change() as paused \gset
select configure_agent(agent_of(:another), max_tpm => 1000);
select isnt(latest_change(), :'paused', 'another limit');
select resume_agent(agent_of(:another));
select claim(:another) as another_attempt \gset
select latest_change() as running \gset
select report_rate_limit(:another_attempt, token(:another_attempt));
select isnt(latest_change(), :'running', 'a 429');

select lives_ok('select latest_change()', 'the owner may ask');
set session authorization test_reader;
select lives_ok('select latest_change()', 'a reader may ask');

select * from finish();
rollback;
