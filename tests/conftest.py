"""The test bed: servers, databases, clock and pgTAP.

Run everything with `tests/run`, or a part with `tests/run tests/pgtap -k dequeue`.

Python tests ask for these fixtures (types in servers.py):

* `database`: a fresh database with the product installed and a settable clock, dropped after the
  test; the test runs on each server. `database.connect("test_worker")`, `.conninfo("test_app")`,
  `.query(sql, *values, user=None)`, `.value(...)`. Logins: test_app, test_web, test_worker,
  test_agent, test_operator and test_reader (each a member of the group role of that name),
  test_stranger (of none) and, by default, the owner, who is no superuser.
* `clock`: `clock.set("2026-01-01 12:00+00")`, `clock.advance(minutes=5)`, `clock.run()` for that
  database, seen by all its connections. Never sleep for a rule about time.
* `pristine`: the same as `database`, exactly as a user would install it (no clock, no pgTAP).
* `server`: the server alone; `@pytest.mark.parametrize("server", ["embedded"], indirect=True)`
  keeps a test to one of them.

pgTAP files, `tests/pgtap/test_NAME.sql`, run on each server by psql, each in a connection of its
own, as the owner, with `search_path = lakequeue, tap, test`. Conventions:

* A comment at the top says what the file proves.
* The first statement is `begin;`, the last `rollback;`, and nothing commits in between: all files
  share a database. Ids therefore do not start at 1.
* `select plan(N);` or `select no_plan();` first, `select * from finish();` last.
* `select test.set_clock('2026-01-01 12:00+00');` stops the clock, `select test.advance('5 min');`
  moves it on.
* `set session authorization test_worker;` acts as a worker, `set session authorization test_owner;`
  as the owner again (`set role` is not enough: functions look at session_user).
* `-- pytest.mark.pristine` at the top runs the file in a database without the settable clock.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_pgtap.plugin.core import report_tap  # type: ignore[import-untyped]
from pytest_pgtap.plugin.sql_files import PgTapItem  # type: ignore[import-untyped]

from tests.servers import (
    SERVER_NAMES,
    Database,
    Server,
    ServerName,
    TemplateKind,
    temporary,
)
from tests.sql_coverage import SqlCoverage

PGTAP_SECONDS = 300
# What a file's other queries print is not for the parser, which takes 1012 for the plan 1..2.
TAP_LINE = re.compile(r"(not )?ok\b|1\.\.\d+( |$)|#|Bail out!")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sql-coverage",
        action="store_true",
        help="print which PL/pgSQL statements the tests ran on Debian's server",
    )
    parser.addoption(
        "--accept",
        action="store_true",
        help="write what isolationtester prints into tests/race/expected instead of comparing",
    )


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores Ctrl-C, and so would what the tests start and interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "markers", "pristine: run a pgTAP file in a database without the settable clock"
    )
    config.addinivalue_line(
        "filterwarnings",
        "ignore:A private pytest class or function was used:pytest.PytestDeprecationWarning:"
        "pytest_pgtap",
    )
    # Nothing that the developer's shell says may lead a test to another database.
    for name in list(os.environ):
        misleading = name.startswith(("PG", "LAKEQUEUE_", "DATABASE_URL", "DATABRICKS_", "MLFLOW_"))
        # Nor where lines end: readline has told the processes of pytest-xdist a width.
        misleading = misleading or name in ("COLUMNS", "LINES")
        if misleading and not name.startswith("LAKEQUEUE_TEST_"):
            del os.environ[name]
    # A run that is told to end stops its servers first (`timeout`, a cancelled CI job).
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Nor may a test write among the developer's own files.
    home = tempfile.mkdtemp(prefix="lakequeue-home-", dir="/tmp")
    config.add_cleanup(partial(shutil.rmtree, home, ignore_errors=True))
    for name in ("DATA", "STATE", "CONFIG"):
        os.environ[f"XDG_{name}_HOME"] = f"{home}/{name.lower()}"
    os.environ["XDG_RUNTIME_DIR"] = home


class TestBed:
    """The servers of this session, each started when it is first asked for."""

    def __init__(self) -> None:
        self.coverage = SqlCoverage()
        self._servers: dict[ServerName, Server] = {}
        self._pgtap: dict[tuple[ServerName, TemplateKind], Database] = {}

    def server(self, name: ServerName) -> Server:
        if name not in self._servers:
            self._servers[name] = Server(name)
        return self._servers[name]

    def pgtap_database(self, name: ServerName, kind: TemplateKind) -> Database:
        """The database that the pgTAP files of this kind share: each rolls back what it did."""
        if (name, kind) not in self._pgtap:
            database = self.server(name).clone(kind)
            if kind == "pristine":
                database.server.add_pgtap(database.name)
            with database.server.admin() as connection:
                # pgTAP keeps its notes in temporary tables, whoever the file acts as.
                connection.execute(f"grant temporary on database {database.name} to public")
            self._pgtap[name, kind] = database
        return self._pgtap[name, kind]

    def close(self) -> None:
        try:
            for database in self._pgtap.values():
                self.coverage.read(database)
        finally:
            for server in self._servers.values():
                server.stop()


BED = pytest.StashKey[TestBed]()


def bed(config: pytest.Config) -> TestBed:
    """The test bed of this session, for fixtures that live longer than a test."""
    return config.stash.setdefault(BED, TestBed())


@pytest.fixture(params=SERVER_NAMES)
def server(request: pytest.FixtureRequest) -> Server:
    """A running PostgreSQL; the test runs once for each."""
    return bed(request.config).server(request.param)


@pytest.fixture
def database(server: Server, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A fresh database with the product installed and a clock that can be set."""
    with temporary(server.clone, bed(request.config).coverage.read) as database:
        yield database


@pytest.fixture
def pristine(server: Server, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A fresh database with the product as shipped."""
    make = partial(server.clone, "pristine")
    with temporary(make, bed(request.config).coverage.read) as database:
        yield database


@pytest.fixture
def empty_database(server: Server, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database without the product, for tests of installing; its owner has CREATEROLE."""
    with temporary(server.empty_database, bed(request.config).coverage.read) as database:
        yield database


class Clock:
    """The time that a test database goes by."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, at: datetime.datetime | str) -> datetime.datetime:
        """Stop the clock at this time."""
        return self._set("select test.set_clock(%s)", at)

    def advance(self, **by: float) -> datetime.datetime:
        """Stop the clock and move it on: `clock.advance(minutes=5)`."""
        return self._set("select test.advance(%s)", datetime.timedelta(**by))

    def run(self) -> None:
        """Let the clock be the real one again."""
        self._database.query("select test.set_clock(null)")

    def now(self) -> datetime.datetime:
        """The time that the database's functions see."""
        return self._set("select lakequeue._now()")

    def _set(self, statement: str, *values: object) -> datetime.datetime:
        time = self._database.value(statement, *values)
        assert isinstance(time, datetime.datetime)
        return time


@pytest.fixture
def clock(database: Database) -> Clock:
    """The clock of `database`."""
    return Clock(database)


# --- pgTAP ------------------------------------------------------------------------------------


class ServerPgTapItem(PgTapItem):  # type: ignore[misc]  # the plugin is not typed
    """A pgTAP file on one server.

    pytest-pgtap collects the files and reports their assertions. What it would do by itself in
    between, one connection for all files and a skip when there is none, would let a file spoil
    the next ones and a missing database pass; psql runs the file instead and keeps the lines that
    came before an error.
    """

    def __init__(self, *, server_name: ServerName, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.server_name = server_name

    def runtest(self) -> None:
        check_transaction(self.path)
        kind: TemplateKind = "pristine" if self.get_closest_marker("pristine") else "prepared"
        database = bed(self.config).pgtap_database(self.server_name, kind)
        ran = subprocess.run(
            [
                database.server.program("psql"),
                "--no-psqlrc",
                "--quiet",
                "--tuples-only",
                "--no-align",
                "--set=ON_ERROR_STOP=1",
                # `health` would count the dead rows that the files before it have rolled back.
                "--command=select pg_stat_reset()",
                f"--command=set session authorization {database.owner}",
                f"--file={self.path}",
                database.scripting_conninfo("lakequeue,tap,test"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PGTAP_SECONDS,
            check=False,
        )
        if ran.returncode != 0:
            pytest.fail(f"{ran.stderr}\n--- output before it\n{ran.stdout}", pytrace=False)
        lines = [line for line in ran.stdout.splitlines() if TAP_LINE.match(line)]
        report_tap(self, lines, self.name)


def check_transaction(path: Path) -> None:
    """Refuse a file that would leave something behind in the database that the files share."""
    code = re.sub(r"--[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL).strip().lower()
    if not re.match(r"begin\s*;", code) or not re.search(r"\brollback\s*;$", code):
        pytest.fail(f"{path.name} must begin with `begin;` and end with `rollback;`", pytrace=False)
    if re.search(r"(^|;)\s*(commit|end transaction|end work)\b", code, re.MULTILINE):
        pytest.fail(f"{path.name} commits: files share a database, roll back", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put one item for each server in the place of each pgTAP file."""
    items[:] = [each for item in items for each in _on_each_server(item)]


def _on_each_server(item: pytest.Item) -> list[pytest.Item]:
    if type(item) is not PgTapItem:
        return [item]
    on_each: list[pytest.Item] = []
    for server_name in SERVER_NAMES:
        each = ServerPgTapItem.from_parent(
            item.parent, name=f"{item.name}[{server_name}]", server_name=server_name
        )
        for mark in item.own_markers:
            each.add_marker(getattr(pytest.mark, mark.name)(*mark.args, **mark.kwargs))
        on_each.append(each)
    return on_each


# --- end of the session -----------------------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the servers, after the last fixture is gone."""
    used = session.config.stash.get(BED, None)
    if used is None:
        return
    used.close()
    if hasattr(session.config, "workeroutput"):  # one of several processes: the first one prints
        session.config.workeroutput["sql_coverage"] = used.coverage.packed()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what another process of this session counted."""
    bed(node.config).coverage.add(getattr(node, "workeroutput", {}).get("sql_coverage", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    used = config.stash.get(BED, None)
    if used is not None and config.getoption("sql_coverage"):
        terminalreporter.section("statements of the SQL functions that ran (PL/pgSQL, Debian)")
        for line in used.coverage.report():
            terminalreporter.line(line)
