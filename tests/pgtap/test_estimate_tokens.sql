-- Tokens from pages, else from bytes, else of one page; by the agent's own rates.
begin;
select plan(20);

select configure_agent('_et parser', tokens_per_task => 100, tokens_per_page => 1000, estimate_factor => 1);

select is(estimate_tokens('_et parser'), 1100::bigint, 'where nothing is known it is one page');
select is(estimate_tokens('_et parser', 3), 3100::bigint, 'pages count each');
select is(estimate_tokens('_et parser', 0), 100::bigint, 'no pages cost what a task costs');
select is(estimate_tokens('_et parser', 3, 9000000), 3100::bigint, 'where pages are counted the size does not matter');
select is(estimate_tokens('_et parser', document_bytes => 0), 1100::bigint, 'an empty file counts as a page');
select is(estimate_tokens('_et parser', document_bytes => 50000), 1100::bigint, '50 kB are a page');
select is(estimate_tokens('_et parser', document_bytes => 50001), 2100::bigint, 'one byte more is a second');
select is(estimate_tokens('_et parser', document_bytes => 5000000), 100100::bigint, 'and so on');
select configure_agent('_et parser', tokens_per_page => 0, estimate_factor => 1);
select is(estimate_tokens('_et parser', 500), 100::bigint, 'pages may cost nothing');
select configure_agent('_et parser', tokens_per_task => 0);
select is(estimate_tokens('_et parser', 500), 1::bigint, 'a task too, but never nothing: what runs must count');

select configure_agent('_et huge', tokens_per_task => 0, tokens_per_page => 1000000000, estimate_factor => 1);
select is(estimate_tokens('_et huge', 1000), 1000000000000::bigint, 'up to 10^12 tokens are possible');
select throws_ok($$select estimate_tokens('_et huge', 1001)$$, 'LQ400', null, 'more are refused');
select throws_ok($$select estimate_tokens('_et huge', 2147483647)$$, 'LQ400', null, 'also for the largest number of pages');
select throws_ok($$select estimate_tokens('_et huge', document_bytes => 9223372036854775807)$$, 'LQ400', null, 'or bytes');
select throws_ok($$select estimate_tokens('_et parser', -1)$$, 'LQ400', null, 'negative pages are refused');
select throws_ok($$select estimate_tokens('_et parser', 3, -1)$$, 'LQ400', null, 'so are negative bytes');
select throws_ok($$select estimate_tokens('_et nobody')$$, 'LQ404', null, 'so is an unknown agent');
select throws_ok($$select estimate_tokens(null)$$, 'LQ404', null, 'and null');

set session authorization test_app;
select is(estimate_tokens('_et huge', 1), 1000000000::bigint, 'an application may ask');
set session authorization test_agent;
select throws_ok($$select estimate_tokens('_et huge', 1)$$, '42501', null, 'an agent may not');
set session authorization test_owner;

select * from finish();
rollback;
