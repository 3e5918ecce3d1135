-- Extractions: who submitted what, when; a name there must be.
begin;
select plan(21);

select set_clock('2026-03-01 09:00+00');
create temporary table made as select create_extraction('March invoices', 'acme', 'ann@example.org') as id;
select results_eq(
  $$select name, customer, submitted_by, created_at from extractions where id = (select id from made)$$,
  $$values ('March invoices', 'acme', 'ann@example.org', '2026-03-01 09:00+00'::timestamptz)$$, 'all that was given is kept');
select isnt(create_extraction('March invoices', 'acme', 'ann@example.org'), (select id from made), 'the same again is another one');

set session authorization test_app;
create temporary table by_app as select create_extraction(E'  April\n') as id;
set session authorization default;
grant select on by_app to test_owner;
set session authorization test_owner;
select results_eq(
  $$select name, customer, submitted_by from extractions where id = (select id from by_app)$$,
  $$values ('April', '', 'test_app')$$, 'an application may; it is for no customer and by the login unless told otherwise');
create temporary table edge as select create_extraction('x', null) as unnamed, create_extraction(repeat('ü', 500), repeat('ü', 200)) as long;
select is((select customer from extractions where id = (select unnamed from edge)), '', 'no customer is an empty one');
select is((select (length(name), length(customer)) from extractions where id = (select long from edge)), (500, 200),
  'a name may have 500 characters, a customer 200');

create temporary table before as select count(*) as n from extractions;
select throws_ok('select create_extraction(null)', 'LQ400', null, 'no name is refused');
select throws_ok($$select create_extraction('')$$, 'LQ400', null, 'an empty one is');
select throws_ok($$select create_extraction(E' \t\n')$$, 'LQ400', null, 'a blank one is');
select throws_ok($$select create_extraction(repeat('x', 501))$$, 'LQ400', null, 'one of 501 characters is');
select throws_ok($$select create_extraction(repeat('x', 5000000))$$, 'LQ400', null, 'and one of megabytes');
select throws_ok($$select create_extraction('x', repeat('x', 201))$$, 'LQ400', null, 'a customer of 201 characters is refused');
select is((select count(*) from extractions), (select n from before), 'and nothing was made');

select set_person('_ce ann', 'operator'), set_person('_ce vic', 'viewer');
set session authorization test_web;
select lives_ok($$select create_extraction('by the web', submitted_by => '_ce ann')$$, 'the web process may for an operator');
select throws_ok($$select create_extraction('x', submitted_by => '_ce vic')$$, 'LQ403', '"_ce vic" may not do this', 'for a viewer it may not');
select throws_ok($$select create_extraction('x', submitted_by => 'somebody')$$, 'LQ403', null, 'nor for a stranger');
select throws_ok($$select create_extraction('x', submitted_by => '_ce ann ')$$, 'LQ403', null, 'whose name is compared exactly');
select throws_ok($$select create_extraction('x')$$, 'LQ403', null, 'nor for nobody');
set session authorization test_app;
select lives_ok($$select create_extraction('x', submitted_by => '_ce vic')$$, 'to an application it is a label');
set session authorization test_owner;
select is((select submitted_by from extractions where name = 'by the web'), '_ce ann', 'the operator submitted it');
set session authorization test_worker;
select throws_ok($$select create_extraction('x')$$, '42501', null, 'a worker may not');
set session authorization test_reader;
select throws_ok($$select create_extraction('x')$$, '42501', null, 'a reader may not');
set session authorization test_owner;

select * from finish();
rollback;
