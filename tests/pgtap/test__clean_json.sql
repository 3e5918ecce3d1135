-- Rule 13: JSON with U+0000, lone surrogates and whatever real PDF text holds becomes jsonb, with U+FFFD where jsonb
-- could not keep a character; all else stays as it was. What no cleaning can store is refused by its own SQLSTATE.
begin;
select plan(47);

-- ordinary JSON
select is(_clean_json('{"a": [1, "x", null, true], "ä": {"b": 1.50}}'),
  '{"a": [1, "x", null, true], "ä": {"b": 1.50}}'::jsonb, 'ordinary JSON stays as it is');
select is(_clean_json(null), null, 'null stays null');
select is(_clean_json('null'), 'null'::jsonb, 'a JSON null stays one');
select is(_clean_json('12345678901234567890.12345678901234567890')::text,
  '12345678901234567890.12345678901234567890', 'numbers keep all their digits');
select is(_clean_json('"\u00e4\u4f60\n\t\"\\\/"') #>> '{}', E'ä你\n\t"\\/', 'ordinary escapes are read');
select is(_clean_json('"\ud83d\ude00 \uD83D\uDE00"') #>> '{}', '😀 😀', 'a pair of surrogates is one character');
select is(_clean_json('"\uFFFD\uFFFE\uFFFF"') #>> '{}', U&'\FFFD\FFFE\FFFF', 'non-characters can be stored and are');
select is(jsonb_array_length(_clean_json((repeat('[', 999) || repeat(']', 999))::json)), 1,
  'nesting of 999 levels is no problem');

-- U+0000
select is(_clean_json('"a\u0000b"') #>> '{}', U&'a\FFFDb', 'U+0000 becomes U+FFFD');
select is(_clean_json('"\u0000\u0000"') #>> '{}', U&'\FFFD\FFFD', 'each one of them');
select is(_clean_json('{"k\u0000": {"l": ["\u0000"]}}'), U&'{"k\FFFD": {"l": ["\FFFD"]}}'::jsonb,
  'in keys and at any depth');
select is(_clean_json('"\\u0000"') #>> '{}', '\u0000', 'behind an escaped backslash it is text and stays');
select is(_clean_json('"\\\u0000"') #>> '{}', U&'\\\FFFD', 'behind an escaped backslash and its own it is U+0000');
select is(_clean_json('"\\\\u0000"') #>> '{}', '\\u0000', 'behind two escaped backslashes it is text');
select is(_clean_json('"\\\\\u0000"') #>> '{}', U&'\\\\\FFFD', 'behind two and its own it is U+0000');
select is(_clean_json('"\\u0000\u0000\\u0000"') #>> '{}', U&'\\u0000\FFFD\\u0000', 'both kinds in one string');
select is(_clean_json('"\u00000"') #>> '{}', U&'\FFFD0', 'a digit that follows is not part of it');
select is(_clean_json('"u0000 0000"') #>> '{}', 'u0000 0000', 'no backslash, no escape');

-- surrogates
select is(_clean_json('"\ud83d"') #>> '{}', U&'\FFFD', 'a lone high surrogate');
select is(_clean_json('"\ude00"') #>> '{}', U&'\FFFD', 'a lone low surrogate');
select is(_clean_json('"a\uD83Db"') #>> '{}', U&'a\FFFDb', 'a high one before text');
select is(_clean_json('"\ude00\ud83d"') #>> '{}', U&'\FFFD\FFFD', 'a pair the wrong way round');
select is(_clean_json('"\ud83d\ud83d\ude00"') #>> '{}', U&'\FFFD\+01F600', 'a high one before a pair');
select is(_clean_json('"\ud83d\ude00\ude00"') #>> '{}', U&'\+01F600\FFFD', 'a low one behind a pair');
select is(_clean_json('"\ud83d\ude00\ud83d\ude00"') #>> '{}', U&'\+01F600\+01F600', 'two pairs in a row stay');
select is(_clean_json('"\ud83d\u0041"') #>> '{}', U&'\FFFDA', 'a high one before an ordinary escape');
select is(_clean_json('"\ud83d\u0000\ude00"') #>> '{}', U&'\FFFD\FFFD\FFFD', 'a pair that U+0000 parts');
select is(_clean_json('"\ud83d-\ude00"') #>> '{}', U&'\FFFD-\FFFD', 'a pair that text parts');
select is(_clean_json('["\ud83d","\ude00"]'), U&'["\FFFD","\FFFD"]'::jsonb, 'halves in two strings are no pair');
select is(_clean_json('"\\ud83d"') #>> '{}', '\ud83d', 'behind an escaped backslash it is text and stays');
select is(_clean_json('"\\\ud83d"') #>> '{}', U&'\\\FFFD', 'behind an escaped backslash and its own it is a half');
select is(_clean_json('"\ud83d\\ude00"') #>> '{}', U&'\FFFD\\ude00', 'a half before text that looks like the other');
select is(_clean_json('"\\ud83d\ude00 tail"') #>> '{}', U&'\\ud83d\FFFD tail', 'text that looks like a half before the other');
select is(_clean_json('"\\ud83d\ude00 \u0000"') #>> '{}', U&'\\ud83d\FFFD \FFFD', 'and U+0000 in the same string');
select is(_clean_json('"\uD800\uDBFF\uDC00\uDFFF"') #>> '{}', U&'\FFFD\+10FC00\FFFD',
  'the first and last of each half are known');
select is(_clean_json('"\ud7ff\ue000"') #>> '{}', U&'\D7FF\E000', 'their neighbours are ordinary characters');

-- what cannot be stored
select throws_ok($$select _clean_json('{"total": 1e200000}')$$, 'LQ422', null, 'a number out of range is refused');
select throws_ok($$select _clean_json(('"' || repeat('x', 64 * 1024 * 1024) || '"')::json)$$, 'LQ413', null,
  'more than 64 MB are refused');
select throws_ok($$select _clean_json(('"' || repeat('ä', 32 * 1024 * 1024) || '"')::json)$$, 'LQ413', null,
  'bytes count, not characters');
select is(length(_clean_json(('"' || repeat('x', 64 * 1024 * 1024 - 2) || '"')::json) #>> '{}'), 64 * 1024 * 1024 - 2,
  'just 64 MB are stored');
select is(
  _clean_json(('"' || repeat('page \u0000\ud83d text ', 20000) || '"')::json) #>> '{}',
  repeat(U&'page \FFFD\FFFD text ', 20000),
  'megabytes with many bad characters are cleaned');
-- (A look behind from each half for the other one took a minute for a tenth of these.)
set statement_timeout = '60s';
select is(length(_clean_json(('"' || repeat(h.half, 200000) || '"')::json) #>> '{}'), 200000, 'however many halves there are: ' || h.half)
from unnest(array['\udce4', '\ud83d']) h(half);
select is(length(_clean_json(('"' || repeat('\ud83d\ude00\udce4 text ', 50000) || '"')::json) #>> '{}'), 400000, 'beside whole pairs');
select is(length(_clean_json(('"' || repeat('\ud83d\ude00 text \u00e4 ', 50000) || '"')::json) #>> '{}'), 450000, 'whole pairs alone');
reset statement_timeout;
select is(length(_clean_json(('"' || repeat('\\', 200000) || '\u0000"')::json) #>> '{}'), 200001,
  'so is a long row of backslashes');

set session authorization test_agent;
select throws_ok($$select _clean_json('1')$$, '42501', null, 'it is internal: an agent may not call it');
set session authorization test_owner;

select * from finish();
rollback;
