-- Who is overtaken, and where the others begin.
begin;
\ir scenarios.sql
select plan(33);

-- Places are written 'm0', 'm1' ... from 2^62 on.
create function pg_temp.place(place text) returns bigint language sql as $$
  select case when place like 'm%' then (1::bigint << 62) + substr(place, 2)::bigint else place::bigint end
$$;
create function pg_temp.told(place bigint) returns text language sql as $$
  select case when place >= 1::bigint << 62 then 'm' || place - (1::bigint << 62) else coalesce(place::text, 'none') end
$$;
-- Whom to move, and from where on the others are read: of ids 1, 2 ... at these places, the newest being 1000.
create function pg_temp.ask(places text[], moved_before bigint default 0, moved bigint[] default '{}', newest bigint default 1000)
returns text language sql as $$
  select format('%s, %s, %s', o.to_move, pg_temp.told(o.place_from), pg_temp.told(o.overtaken_from))
  from lakequeue._overtaken(
    array(select n::bigint from generate_series(1, cardinality(places)) n),
    array(select pg_temp.place(u.p) from unnest(places) with ordinality u(p, n) order by u.n), newest, moved_before, moved) o
$$;
create function pg_temp.crowd(first text, others integer, place text) returns text[] language sql as $$
  select first || array_fill(place, array[others])
$$;

-- --- nothing is open ----------------------------------------------------------------------------------
select is(pg_temp.ask('{}'), '{}, 1000, none', 'where there is none, they begin with the newest');
select is(pg_temp.ask('{}', newest => 0), '{}, 0, none', 'also before the first');
select is(pg_temp.ask('{}', 7), '{}, 1000, none', 'of those that were moved none is read any more');

-- --- 250 ----------------------------------------------------------------------------------------------
select is(pg_temp.ask('{1000}'), '{}, 1000, none', 'the newest is overtaken by none');
select is(pg_temp.ask('{750}'), '{}, 750, none', 'whom 250 have overtaken stays');
select is(pg_temp.ask('{749}'), '{1}, 749, none', 'whom 251 have is to be moved, and holds the mark until it is');
select is(pg_temp.ask('{749}', moved => '{1}'), '{}, 1000, m0', 'and then no more');
select is(pg_temp.ask('{749,751,750,1}'), '{1,4}, 1, none', 'in any order');
select is(pg_temp.ask('{749,751,750,1}', moved => '{1,4}'), '{}, 750, m0', 'they begin with the first that was not moved');
select is(pg_temp.ask('{749,751,750,1}', moved => '{1}'), '{4}, 1, m0', 'such as one that was locked');
select is(pg_temp.ask('{0}', newest => 250), '{}, 0, none', 'of the first 250 none is overtaken');
select is(pg_temp.ask('{0}', newest => 100), '{}, 0, none', 'nor of fewer');

-- --- four times as many as there are ------------------------------------------------------------------
select is(pg_temp.ask(pg_temp.crowd('749', 61, '1000')), '{1}, 749, none', 'of 62, 251 are enough');
select is(pg_temp.ask(pg_temp.crowd('749', 62, '1000')), '{}, 749, none', 'of 63 they are not');
select is(pg_temp.ask(pg_temp.crowd('748', 62, '1000')), '{}, 748, none', 'nor are four times as many');
select is(pg_temp.ask(pg_temp.crowd('747', 62, '1000')), '{1}, 747, none', 'one more is');
select is(pg_temp.ask(pg_temp.crowd('600', 99, 'm9'), 10), '{}, 600, m9', 'those that were moved are counted: of 100, 400 are not enough');
select is(pg_temp.ask(pg_temp.crowd('599', 99, 'm9'), 10), '{1}, 599, m9', '401 are');
select is(pg_temp.ask(array['599'] || pg_temp.crowd('600', 98, 'm9'), 10, '{1}'), '{}, 600, m9', 'those that were moved just now as well');

-- --- from 2^62 on -------------------------------------------------------------------------------------
select is(pg_temp.ask(array[((1::bigint << 62) - 1)::text], newest => (1::bigint << 62) - 1), format('{}, %s, none', (1::bigint << 62) - 1),
  'up to there places are those of ids');
select is(pg_temp.ask('{m0}', 1, newest => 100000), '{}, 100000, m0', 'from there on one stays however many come');
select is(pg_temp.ask('{m0}', 250), '{}, 1000, m0', 'also when 250 were moved, itself the first');
select is(pg_temp.ask('{m0}', 251), '{1}, 1000, m0', 'when more were, it is to be moved again');
select is(pg_temp.ask('{m0}', 251, '{1}'), '{}, 1000, m251', 'behind them');
select is(pg_temp.ask('{m5,m1,m251}', 252), '{2}, 1000, m1', 'only those that so many have overtaken there');
select is(pg_temp.ask('{m5,m1,m251}', 252, '{2}'), '{}, 1000, m5', 'they begin with the first that was not moved');
select is(pg_temp.ask('{m1,700,m5,900}', 252), '{1,2}, 700, m1', 'both can be moved at once');
select is(pg_temp.ask('{m1,700,m5,900}', 252, '{1,2}'), '{}, 900, m5', 'and both marks move on');
select is(pg_temp.ask(pg_temp.crowd('m0', 99, '1000'), 400), '{}, 1000, m0', 'there, too, four times as many as there are');
select is(pg_temp.ask(pg_temp.crowd('m0', 99, '1000'), 401), '{1}, 1000, m0', 'are not enough, and one more is');

select is(format('%s, %s', pg_temp.told(o.move_to), o.overtaken), 'm7, 7', 'the next are moved behind those that were')
from _overtaken('{1,2,3}', '{1,2,900}', 1000, 7, '{}') o;
select is(format('%s, %s', pg_temp.told(o.move_to), o.overtaken), 'm7, 9', 'all of them to the same place, and each counts')
from _overtaken('{1,2,3}', '{1,2,900}', 1000, 7, '{1,2}') o;

set session authorization test_worker;
select throws_ok($$ select from lakequeue._overtaken('{}', '{}', 1, 1, '{}') $$, '42501', null, 'it is internal: a worker may not call it');
set session authorization test_owner;

select * from finish();
rollback;
