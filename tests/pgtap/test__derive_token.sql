-- The token of an attempt, from the secret: test__callback_token.sql has what it must be.
begin;
select plan(3);
select is(_derive_token(1, k.key, i.secret), _callback_token(1, k.key), 'it is the callback token')
from installation i, (select gen_random_uuid() as key) k;
select is(_derive_token(1, gen_random_uuid(), null), null, 'no secret, no token');
set session authorization test_worker;
select throws_ok($$select lakequeue._derive_token(1, gen_random_uuid(), 'x')$$, '42501', null, 'it is internal: a worker cannot make tokens');
set session authorization test_owner;
select * from finish();
rollback;
