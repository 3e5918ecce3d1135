-- The message in whatever JSON an agent reports as its error.
begin;
select plan(15);

select is(_error_text('"the file is encrypted"'), 'the file is encrypted', 'a JSON string is the message');
select is(_error_text('{"message": "timeout", "code": 7}'), 'timeout', 'of an object it is "message"');
select is(_error_text('{"code": 7}'), '{"code": 7}', 'an object without one is kept as text');
select is(_error_text('{"message": null, "code": 7}')::jsonb, '{"code": 7, "message": null}'::jsonb,
  'a message of null is none');
select is(_error_text('{"message": {"deep": 1}}'), '{"deep": 1}', 'a message that is no string is kept as text');
select is(_error_text('[1, "x"]'), '[1, "x"]', 'an array is kept as text');
select is(_error_text('17'), '17', 'so is a number');
select is(_error_text('null'), null, 'a JSON null is no error');
select is(_error_text(null), null, 'neither is null');
select is(_error_text('"  "'), null, 'nor a blank string');
select is(_error_text('"a\u0000b\ud83d"'), U&'a\FFFDb\FFFD', 'U+0000 and lone surrogates become U+FFFD');
select is(_error_text(('"' || repeat('x', 4000) || '"')::json), repeat('x', 4000), '4,000 characters are kept');
select is(_error_text(('{"message": "' || repeat('ä', 100000) || '"}')::json), repeat('ä', 4000), 'more are cut');
select throws_ok($$select _error_text('{"n": 1e200000}')$$, 'LQ422', null, 'what cannot be stored is refused');

set session authorization test_agent;
select throws_ok($$select _error_text('"x"')$$, '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
