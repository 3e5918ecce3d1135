-- A token fits its own attempt and run key only, to the last character. By _check_token every report is checked.
begin;
select plan(8);

select configure_agent('_token_fits parser');
select enqueue_task('_token_fits parser', '/a.pdf'), enqueue_task('_token_fits parser', '/b.pdf');
create temporary table claim as
select row_number() over () as n, c.* from dequeue_tasks('_token_fits worker', agents => array['_token_fits parser']) c;
select secret from installation \gset

select ok(bool_and(_token_fits(attempt_id, run_key, callback_token, :'secret')), 'its own fits') from claim;
select ok(not bool_or(_token_fits(a.attempt_id, a.run_key, b.callback_token, :'secret')), 'that of another attempt does not')
from claim a join claim b on a.n <> b.n;
select ok(not bool_or(_token_fits(a.attempt_id, b.run_key, a.callback_token, :'secret')), 'nor its own with another run key')
from claim a join claim b on a.n <> b.n;
select ok(not bool_or(_token_fits(c.attempt_id, c.run_key, t.token, :'secret')), 'nor anything near it')
from claim c, unnest(array['', left(c.callback_token, 63), c.callback_token || ' ', upper(c.callback_token),
                           overlay(c.callback_token placing 'x' from 64), repeat(c.callback_token, 2), c.run_key::text]) t(token);
select is(_token_fits(c.attempt_id, c.run_key, null, :'secret'), false, 'nor none') from claim c where c.n = 1;
select is(_token_fits(null, null, null, :'secret'), false, 'and nothing fits no attempt');
select is_empty($$
  select p.proname from pg_proc p
  where p.pronamespace = 'lakequeue'::regnamespace and concat(p.prosrc, pg_get_function_sqlbody(p.oid)) ~ '(_callback|_derive)_token\('
    and p.proname not in ('_token_fits', '_callback_token', '_claim', '_claims')
$$, 'no other function compares or makes tokens by itself');

set session authorization test_agent;
select throws_ok($$select lakequeue._token_fits(1, gen_random_uuid(), 'x', 'x')$$, '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
