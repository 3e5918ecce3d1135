-- Text from outside: cut by characters, trimmed, blank counts as not given.
begin;
select plan(13);

select is(_clean_text('invoice', 200), 'invoice', 'ordinary text stays as it is');
select is(_clean_text(E' \t\r\n an  invoice \n', 200), 'an  invoice', 'surrounding blanks go, inner ones stay');
select is(_clean_text('', 200), null, 'empty text counts as not given');
select is(_clean_text(E' \t\r\n', 200), null, 'so do blanks alone');
select is(_clean_text(null, 200), null, 'and null');
select is(_clean_text('abcdef', 6), 'abcdef', 'text of the longest length is kept');
select is(_clean_text('abcdefg', 6), 'abcdef', 'longer text is cut');
select is(_clean_text(repeat('ä', 300), 200), repeat('ä', 200), 'the length counts characters, not bytes');
select is(_clean_text('😀😀😀', 2), '😀😀', 'a character outside the basic plane is one');
select is(_clean_text('   abc', 3), 'abc', 'blanks are taken off before the cut');
select is(length(_clean_text(repeat('x', 5000000), 4000)), 4000, 'megabytes are cut too');
select is(_clean_text('\u0000 \\', 200), '\u0000 \\', 'backslashes mean nothing here');

set session authorization test_web;
select throws_ok('select _clean_text(''x'', 1)', '42501', null, 'it is internal: the web process may not call it');
set session authorization test_owner;

select * from finish();
rollback;
