-- What the template of the test databases gets on top of the product: a clock that tests can set.
--
-- While test.clock holds no time, lakequeue._now() is the real time, as shipped. After
-- test.set_clock(t) it stands still at t for every session until it is set again; in pgTAP files
-- that is undone by their rollback. No test has to sleep for a lease to run out.
create schema test;
grant usage on schema test to public;

create table test.clock (
    only_row boolean primary key default true check (only_row),
    stands_at timestamptz
);
insert into test.clock (stands_at) values (null);
grant select on test.clock to public;

create function test.set_clock(at timestamptz) returns timestamptz
language sql security definer set search_path = pg_catalog, pg_temp
as $$ update test.clock set stands_at = set_clock.at returning stands_at $$;
comment on function test.set_clock(timestamptz) is
    'Stops the clock at the given time, for all sessions; null lets it run again.';

create function test.advance(by interval) returns timestamptz
language sql security definer set search_path = pg_catalog, pg_temp
as $$
    update test.clock set stands_at = coalesce(stands_at, clock_timestamp()) + advance.by
    returning stands_at
$$;
comment on function test.advance(interval) is
    'Stops the clock and moves it on; the first call starts from the real time.';

create or replace function lakequeue._now() returns timestamptz
language sql volatile set search_path = pg_catalog, pg_temp
as $$ select coalesce((select clock.stands_at from test.clock), clock_timestamp()) $$;
