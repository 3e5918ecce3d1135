"""Connections, calls and errors, against real servers."""

from __future__ import annotations

import socket
import threading
from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import conninfo as psycopg_conninfo
from psycopg.types.json import Json, Jsonb

from lakequeue import database as lakequeue_database
from lakequeue.database import DatabaseUnavailable, LakequeueError, NotInstalled
from lakequeue.errors import Problem
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture
def conn(empty_database: Database) -> Any:
    """A connection to a database with functions that tell what they were given."""
    with lakequeue_database.connect(empty_database.conninfo()) as conn:
        conn.execute("create schema lakequeue")
        types = {
            "text": "text",
            "int": "integer",
            "bigint": "bigint",
            "smallint": "smallint",
            "real": "real",
            "numeric": "numeric",
            "json": "json",
            "jsonb": "jsonb",
            "interval": "interval",
            "texts": "text[]",
            "bigints": "bigint[]",
            "reals": "real[]",
        }
        for name, declared in types.items():
            conn.execute(
                f"create function lakequeue.give_{name}(value {declared}) returns {declared} "
                "return value".encode()
            )
        conn.execute(
            "create function lakequeue.refuse(code text, message text, hint text = null) "
            "returns void language plpgsql as $$ begin "
            "raise exception using errcode = code, message = message, "
            "hint = coalesce(hint, ''); end $$"
        )
        conn.execute(
            "create function lakequeue.rows(n int) returns table(a int, b text) "
            "language sql as $$ select i, 'row ' || i from generate_series(1, n) i $$"
        )
        conn.execute("create sequence calls")  # counts what is rolled back, too
        conn.execute(
            "create function lakequeue.refuse_at_first(code text, times int) returns bigint "
            "language plpgsql as $$ declare call bigint := nextval('public.calls'); begin "
            "if call <= times then raise exception using errcode = code, message = 'giving way'; "
            "end if; return call; end $$"
        )
        yield conn


# --- calls ------------------------------------------------------------------------------------


def test_rows_are_dicts(conn: lakequeue_database.Connection) -> None:
    assert lakequeue_database.call(conn, "rows", n=2) == [
        {"a": 1, "b": "row 1"},
        {"a": 2, "b": "row 2"},
    ]
    assert lakequeue_database.call(conn, "rows", n=0) == []
    assert lakequeue_database.call_value(conn, "rows", n=1) == 1
    assert lakequeue_database.call_value(conn, "rows", n=0) is None


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("give_real", 0.5, 0.5),
        ("give_real", 1, 1.0),
        ("give_real", Decimal("0.25"), 0.25),
        ("give_numeric", 0.1, Decimal("0.1")),
        ("give_numeric", Decimal("1e-9"), Decimal("1e-9")),
        ("give_numeric", 10**25, Decimal(10**25)),
        ("give_bigint", 2**62, 2**62),
        ("give_smallint", 7, 7),
        ("give_int", -1, -1),
        ("give_text", None, None),
        ("give_interval", "90 s", timedelta(seconds=90)),
        ("give_interval", timedelta(seconds=90), timedelta(seconds=90)),
        ("give_json", Json({"a": [1, None]}), {"a": [1, None]}),
        ("give_json", Jsonb({"a": 1}), {"a": 1}),
        ("give_jsonb", Json({"a": 1}), {"a": 1}),
        ("give_jsonb", Jsonb([1]), [1]),
        ("give_texts", ["a", None, 'b"\\,{}'], ["a", None, 'b"\\,{}']),
        ("give_texts", [], []),
        ("give_texts", [None, None], [None, None]),
        ("give_bigints", [1, 2**40], [1, 2**40]),
        ("give_bigints", [], []),
        ("give_reals", [0.5, 1.0], [0.5, 1.0]),
    ],
)
def test_declared_types_decide(
    conn: lakequeue_database.Connection, function: str, value: Any, expected: Any
) -> None:
    assert lakequeue_database.call_value(conn, function, value=value) == expected


def test_calls_are_prepared_without_trouble(conn: lakequeue_database.Connection) -> None:
    """After some calls psycopg prepares the statement, with the types of that moment."""
    for value in (1, 2**40, None, 3, "4", 5, 6, None, "7", 8, 2**41):
        found = lakequeue_database.call_value(conn, "give_bigint", value=value)
        assert found == (None if value is None else int(value))


def test_numbers_out_of_range_are_errors(conn: lakequeue_database.Connection) -> None:
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        lakequeue_database.call(conn, "give_int", value=2**40)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\x00b", "ab"),
        ("\x00", ""),
        ("lone \ud83d surrogate", "lone \ufffd surrogate"),
        ("\udc00", "\ufffd"),
        ("a pair 😀 stays", "a pair 😀 stays"),
        ("שלום", "שלום"),
        ("%s %(a)s %% \\ ' \" $$", "%s %(a)s %% \\ ' \" $$"),
    ],
)
def test_text_is_cleaned(conn: lakequeue_database.Connection, text: str, stored: str) -> None:
    assert lakequeue_database.call_value(conn, "give_text", value=text) == stored
    assert lakequeue_database.call_value(conn, "give_texts", value=[text, "x"]) == [stored, "x"]


def test_names_are_quoted(conn: lakequeue_database.Connection) -> None:
    conn.execute('create function lakequeue."odd ""name"("the value" int) returns int return 1')
    assert lakequeue_database.call_value(conn, 'odd "name', **{"the value": 1}) == 1
    with pytest.raises((NotInstalled, psycopg.Error)):
        lakequeue_database.call(conn, 'x"; drop schema lakequeue cascade; --', value=1)
    assert lakequeue_database.call_value(conn, "give_int", value=1) == 1


# --- errors -----------------------------------------------------------------------------------


def test_refusals_carry_their_state_and_hint(conn: lakequeue_database.Connection) -> None:
    with pytest.raises(LakequeueError) as raised:
        lakequeue_database.call(conn, "refuse", code="LQ404", message="no task 5", hint="look")
    error = raised.value
    assert (error.sqlstate, error.message, error.hint) == ("LQ404", "no task 5", "look")
    assert str(error) == "no task 5 (look)"
    assert lakequeue_database.call_value(conn, "give_int", value=1) == 1


@pytest.mark.parametrize("state", ["57P01", "57P03", "53300", "08006", "40P01", "55P03"])
def test_passing_trouble(conn: lakequeue_database.Connection, state: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="down for a while"):
        lakequeue_database.call(conn, "refuse", code=state, message="down for a while")


@pytest.mark.parametrize("state", ["40P01", "55P03"])
def test_a_call_that_had_to_give_way_is_made_again(
    conn: lakequeue_database.Connection, state: str
) -> None:
    answer = lakequeue_database.call_value(conn, "refuse_at_first", code=state, times=4)
    assert answer == 5


def test_a_call_in_a_transaction_is_made_once(conn: lakequeue_database.Connection) -> None:
    conn.autocommit = False
    with pytest.raises(DatabaseUnavailable, match="giving way"):
        lakequeue_database.call(conn, "refuse_at_first", code="40P01", times=1)
    conn.rollback()
    assert lakequeue_database.call_value(conn, "refuse_at_first", code="40P01", times=1) == 2


def test_other_errors_stay_themselves(conn: lakequeue_database.Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        lakequeue_database.call(conn, "refuse", code="22012", message="by zero")


def test_missing_function(conn: lakequeue_database.Connection) -> None:
    with pytest.raises(NotInstalled, match="dequeue_tasks") as raised:
        lakequeue_database.call(conn, "dequeue_tasks", worker="w")
    assert raised.value.hint == "run `lakequeue migrate`"


def test_lost_connection(conn: lakequeue_database.Connection, empty_database: Database) -> None:
    with psycopg.connect(empty_database.conninfo(), autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s, 5000)", [conn.info.backend_pid])
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            lakequeue_database.call(conn, "give_int", value=1)


# --- connecting -------------------------------------------------------------------------------


def test_application_name(empty_database: Database) -> None:
    show = "select current_setting('application_name') as name"
    with lakequeue_database.connect(empty_database.conninfo()) as conn:
        assert conn.execute(show).fetchone() == {"name": "lakequeue"}
        assert conn.autocommit
    named = f"{empty_database.conninfo()} application_name=mine"
    with lakequeue_database.connect(named) as conn:
        assert conn.execute(show).fetchone() == {"name": "mine"}


def test_environment_variables(empty_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = psycopg_conninfo.conninfo_to_dict(empty_database.conninfo())
    for variable, part in {
        "PGHOST": "host",
        "PGPORT": "port",
        "PGUSER": "user",
        "PGDATABASE": "dbname",
    }.items():
        monkeypatch.setenv(variable, str(parts[part]))
    for conninfo in ("", "postgresql://", "application_name=x"):
        with lakequeue_database.connect(conninfo) as conn:
            assert conn.info.dbname == empty_database.name


def test_unreachable(empty_database: Database) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cases = {
        f"postgresql://me:secret@127.0.0.1:{port}/db": "refused",
        "host=/nowhere dbname=db password=secret": "No such file",
        f"{empty_database.conninfo()} dbname=gone": "does not exist",
        f"{empty_database.conninfo()} user=gone": "does not exist",
    }
    for conninfo, reason in cases.items():
        with pytest.raises(DatabaseUnavailable, match="cannot reach the database") as raised:
            lakequeue_database.connect(conninfo)
        assert reason in raised.value.message
        assert raised.value.hint
        assert "secret" not in str(raised.value)
        assert "\n" not in raised.value.message
        with pytest.raises(DatabaseUnavailable):
            lakequeue_database.pool(conninfo)


@pytest.mark.parametrize("conninfo", ["postgresql://[", "host", "hots=x", "host='"])
def test_malformed_address(conninfo: str, server: object) -> None:
    with pytest.raises(Problem, match="not a database address"):
        lakequeue_database.connect(conninfo)


def test_old_server(conn: lakequeue_database.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakequeue_database, "OLDEST_POSTGRES", 99)
    with pytest.raises(Problem, match="the server is PostgreSQL 18") as raised:
        lakequeue_database.check_server(conn)
    assert raised.value.hint == "Lakequeue needs PostgreSQL 99 or newer"


# --- pool -------------------------------------------------------------------------------------


def test_pool_replaces_dead_connections(empty_database: Database) -> None:
    """As after a suspended database: the first call must not fail."""
    with lakequeue_database.pool(empty_database.conninfo(), min_size=2) as pool:
        pool.wait()
        with psycopg.connect(empty_database.conninfo(), autocommit=True) as other:
            other.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
        for _ in range(4):
            with lakequeue_database.checkout(pool) as conn:
                assert conn.execute("select 1 as one").fetchone() == {"one": 1}


def test_pool_exhausted(empty_database: Database) -> None:
    with (
        lakequeue_database.pool(empty_database.conninfo(), max_size=1, timeout=0.2) as pool,
        lakequeue_database.checkout(pool),
        pytest.raises(DatabaseUnavailable, match=r"within 0\.2 seconds"),
        lakequeue_database.checkout(pool),
    ):
        pass


def test_pool_serves_threads(empty_database: Database) -> None:
    with lakequeue_database.pool(empty_database.conninfo(), max_size=4) as pool:
        pids: set[int] = set()

        def work() -> None:
            for _ in range(5):
                with lakequeue_database.checkout(pool) as conn:
                    pids.add(conn.info.backend_pid)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 1 <= len(pids) <= 4
