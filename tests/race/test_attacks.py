"""What a caller brings along: names that shadow ours, settings that change what SQL means.

The calls are those of tests/pgtap/calls.sql: every public function, with values that mean
something. And what is written down of their tokens: nothing.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg.types.json import Json

from lakequeue import database as lakequeue_database
from lakequeue.errors import Problem
from tests.race.scene import configure, dequeue, enqueue
from tests.servers import Database, Server, temporary

PGTAP = Path(__file__).resolve().parents[1] / "pgtap"

# A login that has every role, so that it may call everything, and a schema of its own.
PREPARE = """
create role attacker login in role lakequeue_app, lakequeue_web, lakequeue_worker, lakequeue_agent,
  lakequeue_operator, lakequeue_reader;
create schema attacker authorization attacker;
create sequence attacker.tripped;
alter sequence attacker.tripped owner to attacker;
grant all on schema scenario, test to attacker;
create function scenario.careless(task bigint) returns boolean language plpgsql
as $$ begin return task = 1::bigint; end $$;
"""

# Tables and types: each of ours stands in pg_temp. Functions: each of ours, and some that ours
# call. Operators: PostgreSQL's for every type that ours compare or add. Using any of it counts.
SHADOWS = """
do $$
declare
  v_thing record;
begin
  for v_thing in
    select c.relname as name from pg_class c
     where c.relnamespace = 'lakequeue'::regnamespace and c.relkind in ('r', 'v')
  loop
    execute format('create temporary table %I (trap integer default nextval(''attacker.tripped''))',
                   v_thing.name);
  end loop;
  for v_thing in
    select s.name as schema, p.proname as name,
           oidvectortypes(p.proargtypes) as arguments
      from pg_proc p cross join unnest(array['attacker', 'pg_temp']) s(name)
     where p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
       and (p.pronamespace = 'lakequeue'::regnamespace
            or p.pronamespace = 'pg_catalog'::regnamespace
               and p.proname in ('now', 'clock_timestamp', 'sha256', 'encode', 'convert_to', 'left',
                                 'btrim', 'pg_has_role', 'nextval', 'jsonb_typeof', 'length'))
  loop
    execute format('create function %I.%I(%s) returns bigint language sql as '
                   '$f$ select pg_catalog.nextval(''attacker.tripped'') $f$',
                   v_thing.schema, v_thing.name, v_thing.arguments);
  end loop;
  for v_thing in
    select o.oprname as name, format_type(o.oprleft, null) as l, format_type(o.oprright, null) as r,
           format_type(o.oprresult, null) as result, row_number() over () as n
      from pg_operator o
     where o.oprnamespace = 'pg_catalog'::regnamespace
       and o.oprleft = any('{bigint,integer,smallint,numeric,real,text,bytea,uuid,boolean,date,
                             timestamptz,interval,json,jsonb,name,float8}'::regtype[])
       and o.oprright = any('{bigint,integer,smallint,numeric,real,text,bytea,uuid,boolean,date,
                              timestamptz,interval,jsonb,name,float8}'::regtype[])
  loop
    execute format('create function attacker.trap_%s(l %s, r %s) returns %s language plpgsql as '
                   '$f$ begin perform pg_catalog.nextval(''attacker.tripped'');
                              return null; end $f$',
                   v_thing.n, v_thing.l, v_thing.r, v_thing.result);
    execute format('create operator attacker.%s '
                   '(leftarg = %s, rightarg = %s, function = attacker.trap_%s)',
                   v_thing.name, v_thing.l, v_thing.r, v_thing.n);
  end loop;
end $$;
set search_path = pg_temp, attacker, pg_catalog, lakequeue;
"""

SETTINGS = """
set standard_conforming_strings = off;
set escape_string_warning = off;
set backslash_quote = on;
set transform_null_equals = on;
set array_nulls = off;
set quote_all_identifiers = on;
set datestyle = 'German, DMY';
set intervalstyle = 'sql_standard';
set timezone = 'Pacific/Kiritimati';
set extra_float_digits = -15;
set bytea_output = 'escape';
set xmloption = 'document';
set check_function_bodies = off;
set plpgsql.extra_errors = 'all';
set plan_cache_mode = 'force_custom_plan';
set enable_indexscan = off;
set enable_nestloop = off;
set work_mem = '64kB';
set row_security = off;
"""

# Random, or another in each database, or (health) the whole server's.
VARIES = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|database \d+"
    r'|(?<="unit": )"(?:transactions|ratio|rows)", "value": [\d.]+'
)
# JSON writes a moment with the offset of the session.
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d")


def answers(database: Database, *attacks: str) -> dict[str, str]:
    """What every public function answers to this caller, in a fresh database."""
    with psycopg.connect(database.scripting_conninfo("lakequeue,tap,test")) as connection:
        for name in ("scenarios.sql", "calls.sql"):
            script = (PGTAP / name).read_text()
            connection.execute("set session authorization test_owner")
            connection.execute(script.encode())
        connection.execute("set session authorization default")
        connection.execute(PREPARE.encode())
        connection.execute("set session authorization attacker")
        calls = connection.execute(
            "select f.name::text, scenario.call(f.oid) from scenario.public_function f"
        ).fetchall()
        for attack in attacks:
            connection.execute(attack.encode())
        said = {
            name: str(connection.execute("select scenario.attempt_call(%s)", [call]).fetchone())
            for name, call in calls
        }
        tripped = connection.execute("select is_called from attacker.tripped").fetchone()
        assert tripped == (False,), "something of the attacker's was used"
        if attacks:
            connection.execute("select scenario.attempt_call('select scenario.careless(1)')")
            tripped = connection.execute("select is_called from attacker.tripped").fetchone()
            assert tripped == (True,), "a function that pins nothing is caught"
        connection.rollback()
    return {
        name: MOMENT.sub(
            lambda at: datetime.fromisoformat(at[0]).astimezone(UTC).isoformat(),
            VARIES.sub("…", text),
        )
        for name, text in said.items()
    }


@pytest.fixture
def another(server: Server) -> Iterator[Database]:
    """A second database in the same state: sequences stand where they stood in the first."""
    with temporary(server.clone) as made:
        yield made


def test_a_callers_session_changes_no_answer(database: Database, another: Database) -> None:
    normal = answers(database)
    assert sum("'rows " in said for said in normal.values()) == len(normal) > 50
    assert answers(another, SHADOWS, SETTINGS) == normal


def test_no_token_in_the_servers_log_or_an_error(database: Database) -> None:
    """Values travel beside the statement, and by default the server logs statements only."""
    configure(database)
    enqueue(database, 2)
    row, other = dequeue(database.connect("test_worker"))
    own = {"attempt": row["attempt_id"], "token": row["callback_token"]}
    entry = own | {"outcome": "success", "result": 1, "confidence": 7}
    errors: list[str] = []
    for user, function, arguments in (
        ("test_agent", "store_result", own | {"result": Json(1), "confidence": 7}),
        ("test_agent", "store_result", own | {"result": "{"}),
        ("test_agent", "record_callback", own | {"outcome": "x"}),
        ("test_agent", "record_callback", own | {"outcome": "success", "run_id": "x"}),
        ("test_agent", "record_callback", own | {"outcome": "failure", "retry_after": "never"}),
        ("test_agent", "record_callback", own | {"outcome": "success", "attempt": 0}),
        ("test_agent", "record_callback", own | {"outcome": "success", "no_such": 1}),
        ("test_agent", "report_rate_limit", own | {"attempt": other["attempt_id"]}),
        ("test_agent", "report_rate_limit", own | {"retry_after": "-1 s"}),
        ("test_agent", "reserve_tokens", own | {"input_tokens": -1, "max_output_tokens": 1}),
        ("test_agent", "settle_tokens", own | {"call": row["run_key"]}),
        ("test_agent", "extend_leases", {"attempts": [1], "tokens": [own["token"]] * 2}),
        ("test_web", "record_callbacks", {"callbacks": Json(entry)}),
        ("test_web", "store_result", own | {"result": Json(1)}),
    ):
        with lakequeue_database.connect(database.conninfo(user)) as connection:
            with pytest.raises((psycopg.Error, Problem)) as refused:
                lakequeue_database.call(connection, function, **arguments)
            errors.append("".join(traceback.format_exception(refused.value)))
            if function == "record_callbacks":
                said = lakequeue_database.call(connection, function, callbacks=Json([entry]))
                errors.append(str(said))
    log = database.server.log_file.read_text()
    assert log.count('"lakequeue"."record_callback"') > 4, "failing statements are logged"
    for token in (own["token"], other["callback_token"]):
        assert token not in log
        assert token not in "".join(errors)
