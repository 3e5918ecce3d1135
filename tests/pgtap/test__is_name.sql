-- Names: 1 to 200 characters on one line, without blanks around.
begin;
select plan(3);
select ok((select bool_and(_is_name(v)) from unnest(array['a', 'document-parser', 'ä b', repeat('ü', 200)]) v), 'names');
select ok((select bool_and(not _is_name(v)) from unnest(array['', ' ', 'a ', ' a', E'a\nb', E'a\tb', E'a\u0007', repeat('x', 201), null]) v), 'no names');
set session authorization test_worker;
select throws_ok($$select lakequeue._is_name('a')$$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;
select * from finish();
rollback;
