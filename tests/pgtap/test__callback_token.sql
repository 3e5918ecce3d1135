-- The token of an attempt: its own, the same each time, and worthless after the secret was changed.
begin;
select plan(11);

create temporary table key as select gen_random_uuid() as one, gen_random_uuid() as other;
create temporary table token as select _callback_token(1, one) as value from key;

select matches((select value from token), '^[0-9a-f]{64}$', 'it is 64 hexadecimal digits');
select is(_callback_token(1, (select one from key)), (select value from token), 'it is the same each time');
select isnt(_callback_token(2, (select one from key)), (select value from token), 'another attempt has another one');
select isnt(_callback_token(-1, (select one from key)), (select value from token), 'also a negative one');
select isnt(_callback_token(1, (select other from key)), (select value from token), 'another run key gives another one');
select is(_callback_token(null, (select one from key)), null, 'no attempt, no token');
select is(_callback_token(1, null), null, 'no run key, no token');
select is(
  (select value from token),
  (select encode(sha256(secret || '\x0000000000000001'::bytea || decode(replace(one::text, '-', ''), 'hex')), 'hex')
   from installation, key),
  'it is the sha256 of secret, attempt and run key');

update installation set secret = sha256('another');
select isnt(_callback_token(1, (select one from key)), (select value from token), 'a new secret changes every token');

set session authorization test_worker;
select throws_ok('select _callback_token(1, gen_random_uuid())', '42501', null, 'it is internal: a worker cannot make tokens');
set session authorization test_agent;
select throws_ok('select secret from lakequeue.installation', '42501', null, 'and an agent cannot read the secret');
set session authorization test_owner;

select * from finish();
rollback;
